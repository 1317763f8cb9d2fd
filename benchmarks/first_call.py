"""Seconds of the first call in a process: in one that compiles, and in the next one, which finds the kernels kept.

python -m benchmarks.first_call
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

CASES = {
    "pendulum": "pendulum()",
    "chain of 64": "chain(64)",
    "chain of 1000": "chain(1000)",
    "water, 64 molecules": "water(64)",
}

SCRIPT = """
import time
begin = time.perf_counter()
import holonax as hx
imported = time.perf_counter()
entry = hx.systems.{case}
made = time.perf_counter()
run = hx.simulate(entry.system, hx.EulerA(), entry.start, t1=2**-10, h=2**-13, engine="llvm", save_every=None)
done = time.perf_counter()
import json
print(json.dumps([imported - begin, made - imported, done - made, run.q.tobytes().hex()]))
"""


def seconds(case: str, folder: str) -> tuple[list[float], str]:
    """Of importing, of making system and start, of the first call, in a process of its own; and the end of the path."""
    environment = os.environ | {"HOLONAX_CACHE": folder, "HOLONAX_CHECK": "0"}
    command = [sys.executable, "-c", SCRIPT.format(case=case)]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    *spent, q = json.loads(printed)
    return spent, q


def main() -> None:
    """Both processes of every case, side by side."""
    print(f"{'seconds':<20}  {'import':>13}  {'system, start':>13}  {'simulate':>13}   (first process, second)")
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            (first, q), (second, again) = seconds(case, folder), seconds(case, folder)
        assert q == again, "kept kernels are to give the same bits"
        columns = (f"{a:>6.2f} {b:>6.2f}" for a, b in zip(first, second, strict=True))
        print(f"{name:<20}  {'  '.join(columns)}", flush=True)


if __name__ == "__main__":
    main()
