"""What arguments must be: errors that name the argument, its value and the remedy, before anything is traced."""

from __future__ import annotations

import difflib
import importlib.util
import math
import os
from collections.abc import Collection, Mapping
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import jax
import numpy as np

from holonax.errors import InputError, shown, whole_number

MOST_STEPS = 2**31 - 1
"""Steps of one run: kernels count them in 32 bits."""


def is_traced(value: object) -> bool:
    """Whether a value, or a part of it, is known only as a symbol, under jit, grad or vmap."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


_process: int | None = None  # in which JAX was first used


def not_forked() -> None:
    """Raise in a process that was forked off one in which JAX was at work: its threads are missing, it would hang."""
    global _process
    if _process is None:
        _process = os.getpid()
    if _process != os.getpid():
        raise InputError(
            f"process {os.getpid()} was forked off process {_process}, where JAX was at work already; its threads do "
            "not exist here: start processes with multiprocessing.get_context('spawn')"
        )


def untraced(name: str, value: object, remedy: str) -> None:
    """Raise if there is no number yet."""
    if is_traced(value):
        raise InputError(f"{name} is traced (by jax.grad, jit or vmap), so that it has no value yet; {remedy}")


def instance(name: str, value: object, kind: type, remedy: str) -> None:
    """Raise unless `value` is of that kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name} = {shown(value)} is not a {kind.__name__.lower()}; {remedy}")


def choice(name: str, value: Any, known: Collection[str | None]) -> None:
    """Raise unless `value` is one of those that are known."""
    if not (value is None or isinstance(value, str)) or value not in known:
        raise InputError(f"{name} = {shown(value)}: choose one of {', '.join(map(repr, known))}")


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """That there is no such name, which ones look like it, and which ones there are."""
    if not known:
        return f"there is no {what}, nor any other"
    alike = difflib.get_close_matches(name.lower(), {one.lower() for one in known})
    close = [one for word in alike for one in known if one.lower() == word]
    meant = f" (did you mean {' or '.join(close)}?)" if close else ""
    return f"there is no {what}{meant}; choose one of {', '.join(known)}"


def flag(name: str, value: Any) -> bool:
    """True or False; anything else, such as "no", would count as one of them without a word."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} = {shown(value)}: must be True or False")
    return bool(value)


def at_least(least: int, name: str, value: Any, what: str) -> int:
    """A whole number that is not less; `what` says what it counts."""
    number = whole_number(name, value)
    if number < least:
        raise InputError(f"{name} = {number}: {what}")
    return number


def real_number(name: str, value: Any) -> float:
    """A finite real number; arrays without axes are welcome."""
    untraced(name, value, "pass a plain number")
    is_array = hasattr(value, "dtype") and hasattr(value, "ndim")
    if isinstance(value, bool) or not (
        value.ndim == 0 and value.dtype.kind in "iuf" if is_array else isinstance(value, (Real, Decimal))
    ):
        raise InputError(f"{name} = {shown(value)}: must be a real number, such as {name}=1.0")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name} = {shown(value)} is not finite; pass a finite number")
    return number


def positive(name: str, value: Any, what: str = "must be positive") -> float:
    """A finite real number above 0."""
    number = real_number(name, value)
    if number <= 0:
        raise InputError(f"{name} = {number}: {what}")
    return number


def real_numbers(name: str, values: Any, what: str) -> np.ndarray:
    """An array of real numbers of any shape, finite or not; `what` says what they should be."""
    untraced(name, values, "pass plain numbers")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} = {shown(values)} is not an array of numbers: {what}") from None
    exact = array.dtype == object and all(isinstance(x, (Real, Decimal)) for x in array.flat)
    if array.dtype.kind not in "iuf" and not exact:
        raise InputError(f"{name} = {shown(values)}: its entries are not real numbers; {what}")
    return array.astype(float)


def number_of_steps(t0: float, t1: float, h: float) -> int:
    """How many steps of `h` lead from `t0` to `t1`, up to the rounding of these numbers."""
    positive("h", h, "the step size must be positive")
    if t1 <= t0:
        raise InputError(f"t1 = {t1} is not after t0 = {t0}; make t1 larger")
    ratio = (t1 - t0) / h
    count_of_steps(ratio, f"t1 - t0 = {t1 - t0:g} is {ratio:.6g} steps of h = {h:g}")
    steps = round(ratio)
    resolution = float(np.spacing(max(abs(t0), abs(t1))))  # what a time is rounded to
    if resolution > 0.01 * h:
        raise InputError(
            f"h = {h:g} cannot be seen beside t0 = {t0:g} and t1 = {t1:g}, which are rounded to {resolution:.1e}; "
            f"nothing depends on the time itself: use t0 = 0 and t1 = {t1 - t0:.15g}"
        )
    if steps < 1 or abs(ratio - steps) > 1e-9 * ratio + resolution / h:
        nearest = max(steps, 1)
        raise InputError(
            f"t1 - t0 = {t1 - t0} is {ratio:.6g} steps of h = {h}, not a whole number; "
            f"use t1 = {t0 + nearest * h:.15g} or h = {(t1 - t0) / nearest:.15g}"
        )
    return steps


def count_of_steps(number: float, what: str, remedy: str = "use a larger h") -> None:
    """Raise if there are more steps than can be counted; `what` tells where they come from."""
    if not number <= MOST_STEPS:
        raise InputError(f"{what}, and 2**31 - 1 = {MOST_STEPS} can be counted; {remedy}")


_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_present() -> float:
    """Bytes that this process may have: those of the machine, or fewer in a container or under `ulimit -v`."""
    limits = [math.inf]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if importlib.util.find_spec("resource"):  # not on Windows
        import resource

        (limit, _) = resource.getrlimit(resource.RLIMIT_AS)
        limits.append(limit if limit != resource.RLIM_INFINITY else math.inf)
    for file in map(Path, _CGROUPS):
        if file.exists() and (text := file.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits)


_LITTLE = 2**27
"""Bytes that a process always has if it has JAX."""


def memory(what: str, size: float, remedy: str) -> None:
    """Raise if `what` takes more bytes than this process may have."""
    if size > _LITTLE and size > (present := memory_present()):
        raise InputError(f"{what} need {size / 2**30:.1f} GiB, this machine has {present / 2**30:.1f}; {remedy}")


def unit_names(units: Any) -> dict[str, str]:
    """Names of the units of q, p and time, as far as they are given."""
    if not isinstance(units, Mapping) or not all(isinstance(unit, str) for unit in units.values()):
        raise InputError(f'units = {shown(units)}: pass names of units, such as {{"q": "nm", "time": "ps"}}')
    for name in units:
        choice("a key of units", name, ("q", "p", "time"))
    return dict(units)
