"""Being asked to stop at any moment."""

import gc
import signal
import sys
import time

import pytest

from holonax.cli.signals import stoppable


def collect_and_wait():
    gc.collect()  # nothing can be raised in there
    for _ in range(1000):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_garbage_collection_is_not_lost(number):
    def ask(phase, info):
        if phase == "stop" and not received:
            signal.raise_signal(number)

    hook = sys.unraisablehook
    with stoppable() as received:
        gc.callbacks.append(ask)
        with pytest.raises(KeyboardInterrupt):
            collect_and_wait()
        gc.callbacks.remove(ask)
    assert received == [number, number]
    assert sys.unraisablehook is hook


def test_other_things_that_cannot_be_raised_are_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Broken:
        def __del__(self):
            raise ZeroDivisionError

    with stoppable():
        Broken()
        gc.collect()
    assert [lost.exc_type for lost in told] == [ZeroDivisionError]
