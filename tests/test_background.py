"""Work in threads: results in order, whoever is done when."""

import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from holonax import background
from holonax.background import _wait, in_background, in_order


class DoneJustThen(Future):
    """Ends between a look that was too early and the question whether it is done."""

    def __init__(self, outcome):
        super().__init__()
        self.outcome = outcome

    def result(self, timeout=None):
        if not self.done():
            self.set_exception(self.outcome) if isinstance(self.outcome, Exception) else self.set_result(self.outcome)
            raise TimeoutError
        return super().result(timeout)


def test_a_result_that_comes_while_nobody_looks_is_not_lost():
    assert _wait(DoneJustThen(5), lambda: None) == 5


def test_what_a_function_raises_is_raised():
    with pytest.raises(TimeoutError, match="of the function's own"):
        _wait(DoneJustThen(TimeoutError("of the function's own")), lambda: None)


def test_results_come_in_the_order_of_the_items():
    assert [*in_order(lambda x: x * x, range(20), 3, lambda: None)] == [x * x for x in range(20)]


def test_threads_are_used_again_also_after_an_error(monkeypatch):
    monkeypatch.setattr(background, "_idle", [])

    def later(function):
        """In the background; afterwards its thread is without work again."""
        try:
            return in_background(function)
        finally:
            end = time.monotonic() + 30
            while not background._idle and time.monotonic() < end:
                time.sleep(0.001)

    first = later(threading.get_ident)
    with pytest.raises(ZeroDivisionError):
        later(lambda: 1 / 0)
    assert later(threading.get_ident) == first


def alone(code):
    """What a process does that has this module alone, without the rest of holonax."""
    folder = Path(background.__file__).parent
    begin = f"import os, sys, time; sys.path.insert(0, {str(folder)!r}); import background\n"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", begin + code], capture_output=True, text=True, timeout=60
    )


def test_work_that_is_underway_is_waited_for_at_the_end():
    """Of the interpreter, for a moment; threads without work are not, or it would take two seconds."""
    code = """if True:
        background.in_thread(lambda: None)
        background.in_thread(lambda: (time.sleep(0.2), print("done", time.monotonic(), flush=True)))
        background._let_finish()
        print("over", time.monotonic())
    """
    lines = alone(code).stdout.split()
    assert lines[::2] == ["done", "over"]
    assert float(lines[3]) - float(lines[1]) < 1.0


@pytest.mark.skipif(not hasattr(background.os, "fork"), reason="no fork on this system")
def test_a_fork_has_threads_of_its_own():
    code = """if True:
        background.in_background(int)
        background.in_thread(lambda: time.sleep(100))
        time.sleep(0.1)  # until the first thread is idle
        child = os.fork()
        if child == 0:
            begin, answer = time.monotonic(), background.in_background(lambda: 7)
            background._let_finish()  # nobody is underway here
            os._exit(answer if time.monotonic() - begin < 1.0 else 1)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert alone(code).returncode == 7
