"""Real signals on real processes: what the command line says, how soon, and with which exit code.

`make signals` sends them at random moments, while modules are imported, programs compiled, paths run and studies made.
"""

import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

# As the installed script, but with SIGINT as it is in a terminal even if the tests run in the background of a shell.
SCRIPT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from holonax.cli.main import main; main()"
)

LONG_RUN = ("run", "--t1", "8", "--paths", "20000000", "-m", "EulerA")
SHORT_RUN = ("run", "--t1", "8", "--paths", "200000", "-m", "EulerA")  # of a system with so many coordinates
LONG_STUDY = ("converge", "--h", "2^-3..2^-5", "--paths", "5000000", "-m", "EulerA")
PATIENCE = 10.0  # seconds to an answer; a run takes 0.2, the figures of a study 2, but machines that test are slow


@contextmanager
def ending_after(seconds, child):
    """Kill a process that does not answer by then."""
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    yield
    timer.cancel()


def _last_words(child, told):
    """What a process prints until its end; one that does not end says where each of its threads is."""
    try:
        return child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGABRT)
        raise AssertionError(told + child.communicate()[1]) from None


def stop(command, number, moment, folder, out, entry="hx.systems.oscillator()"):
    """Start a process, signal it that long after it has found its system.

    Returns the seconds until it says that it is interrupted, those to its end, by when tables and figures of what is
    complete are written, and the number of complete paths or chunks.
    """
    loaded = folder / "loaded"
    loaded.unlink(missing_ok=True)
    file = folder / "mine.py"
    file.write_text(f"import holonax as hx, pathlib\nentry = {entry}\npathlib.Path({str(loaded)!r}).touch()\n")
    arguments = [command[0], f"{file}:entry", *command[1:], "--out", str(out)]
    # An orderly exit of Python crashes now and then in threads that still compute: it must not try.
    script = f"import atexit; atexit.register(print, 'orderly'); {SCRIPT}"
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            while not loaded.exists():
                assert child.poll() is None, child.communicate()
                time.sleep(0.05)
            time.sleep(moment)
            assert child.poll() is None, child.communicate()
            begin = time.monotonic()
            child.send_signal(number)
            with ending_after(PATIENCE, child):
                told = child.stderr.readline()
            answered = time.monotonic() - begin
            printed, more = _last_words(child, told)
            ended = time.monotonic() - begin
        finally:
            child.kill()
    assert child.returncode == 128 + number
    assert told.startswith("interrupted")
    assert "orderly" not in printed
    assert more == ""
    if " are done" not in told:
        assert told == "interrupted: nothing is complete yet\n" or moment == 0
        assert printed == ""
        assert not out.exists() or not list(out.iterdir())
        return answered, ended, 0
    assert "E energy" in printed or "strong errors" in printed
    return answered, ended, int(re.match(r"interrupted: (\d+) of", told)[1])


CASES = {
    "a run": (LONG_RUN, "hx.systems.oscillator()", 10.0),
    "a study": (LONG_STUDY, "hx.systems.oscillator()", 20.0),
    "compiling a chain of 64": (SHORT_RUN, "hx.systems.chain(64, 0.3)", 8.0),
}


def main():
    rng, slow = np.random.default_rng(0), 0
    for name, (command, entry, longest) in CASES.items():
        for i, moment in enumerate(np.sort(rng.uniform(0.0, longest, 10)).tolist()):
            number = (signal.SIGINT, signal.SIGTERM)[i % 2]
            with tempfile.TemporaryDirectory() as folder:
                answered, ended, complete = stop(command, number, moment, Path(folder), Path(folder) / "out", entry)
            slow += answered > 1.0
            told = f"answer after {answered:.2f} s, exit after {ended:.2f} s, {complete} complete"
            print(f"{name}, {number.name} after {moment:4.1f} s: {told}", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
