"""How much memory a run may have, and the chunks that keep it there."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from holonax.engines import ROWS, Runner
from holonax.errors import InputError, shown
from holonax.inputs.checks import memory_present
from holonax.simulation.plan import Plan

_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_UNITS |= {"KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40}
_SHARE = 0.25  # of what is free, if nobody says how much
_FILE = 2**23  # bytes of a chunk in a file: large enough for any disk, small enough to be looked at
_CHUNKS = 16  # of paths, at least, where there are so many: the last one is computed anew when paths are added
_COPIES = 5  # of a chunk at a time: q and p, and one of them compressed, as memory and as a file
_SAFETY = 0.7  # of what is left of the memory: nobody knows all that allocators keep


class Sizes(NamedTuple):
    """How a run is cut: paths of a chunk, saved times of a file, chunks at a time."""

    paths: int
    times: int
    workers: int


def bytes_of(memory: Any) -> float:
    """A size such as "1GiB", "500 MB" or 2**30 in bytes; None: what is taken now, and a quarter of what is free."""
    if memory is None:
        return memory_resident() + _SHARE * memory_free()
    found = re.fullmatch(r"\s*([0-9.]+(?:[eE][0-9]+)?)\s*([A-Za-z]*)\s*", memory) if isinstance(memory, str) else None
    number = isinstance(memory, (int, float)) and not isinstance(memory, bool)
    try:
        size = float(memory) if number else float(found[1]) * _UNITS[found[2].upper()] if found else 0.0
    except (KeyError, ValueError):
        size = 0.0
    if not 0 < size < float("inf"):
        raise InputError(f'memory = {shown(memory)}: must be a size such as "1GiB" or "500MB", or a number of bytes')
    return size


def memory_free() -> float:
    """Bytes that are free now, as far as the system tells."""
    file = Path("/proc/meminfo")
    lines = file.read_text().splitlines() if file.exists() else []
    free = [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min([memory_present(), *free])


def memory_resident() -> float:
    """Bytes that this process has now; 0 if the system does not tell."""
    file = Path("/proc/self/statm")
    if file.exists():
        return float(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if importlib.util.find_spec("resource"):
        import resource

        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return 0.0


def sizes_for(plan: Plan, program: Runner, memory: float, threads: int) -> Sizes:
    """Chunks for a new store, for so many threads, here or elsewhere; results do not depend on them."""
    item = np.dtype(plan.dtype).itemsize
    unit = program.block if plan.observe else program.grain
    share = max(-(-plan.paths // max(_CHUNKS, 2 * threads)), program.least)
    paths = min(program.chunk, unit * 2 ** (-(-share // unit) - 1).bit_length())
    times = max(1, min(plan.grid.times, _FILE // (paths * plan.n * item)))
    sizes = Sizes(paths, times, _most_workers(plan, program))
    room = _SAFETY * (memory - memory_resident())
    while needed(plan, sizes) > room:
        if sizes.times > ROWS:
            sizes = sizes._replace(times=sizes.times // 2)
        elif sizes.paths > unit and sizes.paths % 2 == 0 and (sizes.paths // 2) % unit == 0:
            sizes = sizes._replace(paths=sizes.paths // 2)
        elif sizes.workers > 1:
            sizes = sizes._replace(workers=sizes.workers - 1)
        elif sizes.times > 1:
            sizes = sizes._replace(times=sizes.times // 2)
        else:
            least = memory_resident() + needed(plan, sizes) / _SAFETY
            raise InputError(
                f"memory = {memory / 2**20:.0f} MiB is not enough: {least / 2**20:.0f} MiB are needed here, most of "
                "it by what is there already; allow more"
            )
    return sizes


def workers_for(plan: Plan, program: Runner, sizes: Sizes, memory: float) -> int:
    """How many chunks of a store there may be at a time."""
    room = _SAFETY * (memory - memory_resident())
    return int(max(1, min(_most_workers(plan, program), room // needed(plan, sizes._replace(workers=1)))))


def _most_workers(plan: Plan, program: Runner) -> int:
    """Twice as many as compute, where states are saved: some of them wait for the disk."""
    return program.workers if plan.save_every is None else 2 * program.workers


def needed(plan: Plan, sizes: Sizes) -> float:
    """Bytes for chunks at work: what engines record in a call, what waits to be written, what is observed."""
    item = np.dtype(plan.dtype).itemsize
    states = sizes.paths * plan.n * item
    observed = sum(8 * sizes.paths * ROWS * int(np.prod(view.shape)) for view in plan.views.values())
    return sizes.workers * (states * (4 * ROWS + _COPIES * sizes.times) + 4 * observed)
