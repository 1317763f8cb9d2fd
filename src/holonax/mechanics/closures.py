"""Programs are compiled once per function, but what a function closes over may change: then they are forgotten.

JAX, and the caches here, know a function by its name in memory.  A global that gets another value, an array that is
changed in place, a notebook cell that is run again leave that name as it is.  So whenever a function is used, it is
compared with what it was before: by what it refers to, if that is clear and the same; otherwise it is traced, which
takes milliseconds.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from holonax.inputs.parameters import forms, recipes_in
from holonax.mechanics.references import References, references
from holonax.mechanics.system import System

_MOST_KNOWN = 256
_known: OrderedDict[Hashable, tuple[bytes, References | None]] = OrderedDict()

MOST_REMEMBERED = 24
"""Programs of a kind that are kept."""

QUICKLY = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}
"""Options of `jax.jit` for programs that run once or twice: XLA compiles them in 60 % of the time."""

_forget: list[Callable[[], None]] = [jax.clear_caches]

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")


def remembered(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """`make`, called once for arguments that it has had lately, until what was made may be out of date.

    Whatever is compiled for a system or a function of the user's is made by such a function.  A program of JAX is to
    be a `jax.jit` of its own: it goes with the last reference to it, while what JAX knows by static arguments stays.
    """
    cached = lru_cache(maxsize=MOST_REMEMBERED)(make)
    _forget.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


_ADDRESS = re.compile(r"0x[0-9a-f]+")


def fingerprint(
    function: Callable[..., Any],
    n: int,
    arguments: int = 1,
    parameters: Mapping[str, Any] | None = None,
    *,
    lasting: bool = False,
) -> bytes:
    """Of a function of so many vectors and of parameters: of what it does, and of the values of the arrays in it.

    A lasting one is the same in another process: it leaves out where things are in memory.
    """
    x, values = jax.ShapeDtypeStruct((n,), jnp.result_type(float)), parameters or {}
    # By another function, for JAX would remember what it has traced before.
    traced = jax.make_jaxpr(lambda values, *x: function(*x, **values))(values, *[x] * arguments)
    text = str(traced.jaxpr)
    digest = blake2b((_ADDRESS.sub("", text) if lasting else text).encode())
    for constant in map(np.asarray, traced.consts):
        digest.update(str((constant.shape, constant.dtype)).encode() + constant.tobytes())
    return digest.digest()


def fingerprint_of(system: System, n: int) -> str:
    """Of all functions of a system, and of what its parameters are, the values of numbers left aside; a lasting one."""
    form = system.form
    parts = [fingerprint(f.function, n, len(f.takes), f.asked(n), lasting=True) for f in form.functions()]
    kinds = sorted((name, _ADDRESS.sub("", repr(kind))) for name, kind in forms(form.parameters).items())
    return blake2b(b"".join(parts) + repr((kinds, form.redundant)).encode(), digest_size=16).hexdigest()


def keep_up(system: System, n: int) -> None:
    """Forget what was compiled if the functions of a system no longer compute what they did."""
    form = system.form
    functions = list(form.functions())

    def traced() -> bytes:
        return b"".join(fingerprint(f.function, n, len(f.takes), f.asked(n)) for f in functions)

    written = [f.function for f in functions] + _called_by(form.parameters)
    _compare((form, n), references(iter(written)), traced)


def keep_up_with(function: Callable[..., Any], n: int, parameters: Mapping[str, Any]) -> None:
    """The same for a function of q, p and these parameters, such as an observable's."""
    kinds = tuple(sorted(forms(parameters).items()))
    written = [function, *_called_by(parameters)]
    _compare((function, n, kinds), references(iter(written)), lambda: fingerprint(function, n, 2, parameters))


def _called_by(parameters: Mapping[str, Any]) -> list[Callable[..., Any]]:
    """Functions of the user's by which parameters are made."""
    return [function for recipe in recipes_in(parameters).values() for function in recipe.functions]


def _compare(key: Hashable, seen: References | None, traced: Callable[[], bytes]) -> None:
    before = _known.pop(key, None)
    same = before is not None and seen is not None and before[1] == seen
    now = before[0] if before is not None and same else traced()
    _known[key] = now, seen
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    if before is not None and before[0] != now:
        for forget in _forget:
            forget()
