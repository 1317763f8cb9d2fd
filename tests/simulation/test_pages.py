"""Memory that is asked for ahead: nothing is changed, whatever the system says."""

import numpy as np

from holonax.simulation import pages


def test_content_stays(monkeypatch):
    monkeypatch.setattr(pages, "in_thread", lambda task: task())
    arrays = [np.random.default_rng(0).normal(size=size) for size in (600_000, 3, 0, 70_001)]
    before = [x.copy() for x in arrays]
    pages.ask_for_pages([arrays[0][1:], *arrays[1:]])
    assert all(np.array_equal(x, y) for x, y in zip(arrays, before, strict=True))


def test_what_is_small_or_huge_is_left_alone(monkeypatch):
    monkeypatch.setattr(pages, "_ask", None)
    monkeypatch.setattr(pages, "in_thread", None)
    pages.ask_for_pages([np.zeros(1000)])
    pages.ask_for_pages([np.broadcast_to(np.zeros(1), 2**28)])


def test_no_pages_are_asked_for_where_no_thread_can_be_started(monkeypatch):
    def failing(task):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pages, "in_thread", failing)
    pages.ask_for_pages([np.zeros(600_000)])
