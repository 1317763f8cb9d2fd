"""What it costs to keep a run: time beside not keeping it and beside the disk alone, and memory.

    python -m benchmarks.store [folder]

The folder is where stores are made, and removed again; it decides which disk is measured.  Every run is a process of
its own, since memory is measured as the most that a process had.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

RUN = """
    import json, resource, sys, time
    import holonax as hx
    options = json.loads(sys.argv[1])
    e = hx.systems.pendulum()
    if options.pop("observed"):
        options["observe"] = {"energy": hx.Mean(e.system.energy, every=1000)}
        options["observe"]["z"] = hx.Moments(lambda q, p: q[2], every=1000)
    steps, paths = options.pop("steps"), options.pop("paths")
    common = dict(h=2.0**-8, seed=0, progress=False)
    small = {name: x for name, x in options.items() if name in ("save_every", "observe")}
    hx.simulate(e.system, hx.EulerA(), e.start, t1=steps * 2.0**-8, paths=32, **common, **small)  # compiles
    begin = time.perf_counter()
    run = hx.simulate(e.system, hx.EulerA(), e.start, t1=steps * 2.0**-8, paths=paths, **common, **options)
    seconds = time.perf_counter() - begin
    most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "most": most, "states": 2 * run.q.nbytes}))
"""


def measured(**options: object) -> dict[str, float]:
    """Seconds, and the most memory that a process had."""
    command = [sys.executable, "-c", textwrap.dedent(RUN), json.dumps(options)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def size_of(folder: Path) -> int:
    """Bytes on the disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def seconds_of_disk(folder: Path, size: int) -> float:
    """To write so many bytes, in files of 8 MiB, and have them on the disk."""
    data, begin = os.urandom(2**23), time.perf_counter()
    for number in range(-(-size // len(data))):
        with (folder / f"{number}.bin").open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    seconds = time.perf_counter() - begin
    for path in folder.glob("*.bin"):
        path.unlink()
    return seconds


def main() -> None:
    """Print the numbers of docs/long_runs.md."""
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        streamed = {"paths": 10**5, "steps": 999, "save_every": 1, "observed": False}
        without = measured(**streamed)
        kept = measured(**streamed, store=str(folder / "run.zarr"), memory="1GiB")
        size = size_of(folder / "run.zarr")
        shutil.rmtree(folder / "run.zarr")
        disk = seconds_of_disk(folder, size)
        print(
            f"10^5 paths x 10^3 saved times, {kept['states'] / 1e9:.1f} GB of states, {size / 1e9:.1f} GB on the disk"
        )
        print(f"  not stored {without['seconds']:.1f} s, {without['most'] / 2**30:.2f} GiB resident")
        print(f"  the disk alone, the same bytes: {disk:.1f} s ({size / disk / 1e6:.0f} MB/s)")
        print(f"  stored {kept['seconds']:.1f} s, {kept['most'] / 2**30:.2f} GiB resident, with memory='1GiB'")
        longer = max(without["seconds"], disk)
        print(f"  {kept['seconds'] / longer:.2f} times the longer of the two")
        seen = {"paths": 10**6, "steps": 10**4, "save_every": None, "observed": True}
        for where in ({}, {"store": str(folder / "seen.zarr"), "memory": "1GiB"}):
            found = measured(**seen, **where)
            words = "stored" if where else "not stored"
            print(f"10^6 paths x 10^4 steps, observables only, {words}: {found['seconds']:.0f} s, ", end="")
            print(f"{found['most'] / 2**30:.2f} GiB resident")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
