"""Programs are compiled once per function, but what a function closes over may change: then they are forgotten.

JAX, and the caches here, know a function by its name in memory.  A global that gets another value, an array that is
changed in place, a notebook cell that is run again leave that name as it is.  So a function is traced, which takes
milliseconds, whenever it is used, and compared with what it was before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from holonax.system import System

_MOST = 256
_known: OrderedDict[Hashable, Any] = OrderedDict()

FORGET: list[Callable[[], None]] = [jax.clear_caches]
"""What is to be called when something compiled may be out of date."""


def fingerprint(function: Callable[..., Any], n: int, arguments: int = 1) -> tuple[Any, ...]:
    """A function of so many vectors, traced, as text, and the values of the arrays in it."""
    x = jnp.zeros(n)
    traced = jax.make_jaxpr(lambda *x: function(*x))(*[x] * arguments)  # JAX would remember what it has traced before
    return hash(str(traced.jaxpr)), *((x.shape, np.asarray(x).tobytes()) for x in map(np.asarray, traced.consts))


def keep_up(system: System, n: int) -> None:
    """Forget what was compiled if the functions of a system no longer compute what they did."""
    parts: list[tuple[Any, int]] = [(system.lagrangian, 2), (system.constraint, 1), (system.noise, 1)]
    _compare((system, n), tuple(fingerprint(x, n, arguments) for x, arguments in parts if x is not None))


def keep_up_with(function: Callable[..., Any], n: int) -> None:
    """The same for a function of q and p, such as an observable's."""
    _compare((function, n), fingerprint(function, n, 2))


def _compare(key: Hashable, now: Any) -> None:
    before = _known.pop(key, now)
    _known[key] = now
    if len(_known) > _MOST:
        _known.popitem(last=False)
    if before != now:
        for forget in FORGET:
            forget()
