"""Progress bars and the log."""

import io
import logging
import sys
import time

import pytest

import holonax as hx
from holonax import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def drawn(clock, monkeypatch, columns, stream, told=str):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.Bar(1000, "path-steps", show=True, told=told) as bar:
        for second in range(1, 6):
            clock[0] = float(second)
            bar.update(100 * second)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [30, 40, 80, 120])
def test_a_bar_fits_the_terminal(columns, clock, monkeypatch):
    text = drawn(clock, monkeypatch, columns, Terminal(), lambda: "3 failed")
    assert text.endswith("\n")
    lines = [line.rstrip() for line in text.strip("\n").split("\r") if line]
    assert max(map(len, lines)) < columns
    assert "50.0%  5 s left  3 failed" in lines[-1]
    assert ("100 path-steps/s" in lines[-1]) == (columns > 40)
    assert ("[###" in lines[-1]) == (columns > 60)


def test_nothing_is_written_where_nobody_looks(clock, monkeypatch):
    assert drawn(clock, monkeypatch, 80, io.StringIO()) == ""


def test_what_was_there_before_counts_as_done_and_not_as_work(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Bar(10_000, "path-steps", show=True) as bar:
        for tick in range(200):
            clock[0] = 2.0 + tick / 4
            bar.update(9_000 + tick)  # most of it comes at once, as from a store
        assert "  4 path-steps/s" in bar.line(9_199, 120)
        assert "3 min 20 s left" in bar.line(9_199, 120)


def test_the_log_says_which_engine_and_why(caplog):
    entry = hx.systems.oscillator()
    with caplog.at_level(logging.INFO, logger="holonax"):
        hx.simulate(entry.system, hx.EulerA(), entry.start, t1=1.0, h=0.25, engine="llvm")
    (record,) = caplog.records
    assert record.name.startswith("holonax")
    assert record.getMessage().startswith("engine llvm (asked for); ready after ")


def test_nothing_is_logged_to_stderr_unless_somebody_asks(capfd):
    entry = hx.systems.oscillator()
    hx.simulate(entry.system, hx.EulerA(), entry.start, t1=1.0, h=0.25)
    assert capfd.readouterr() == ("", "")
