"""What a function refers to, as far as that can be read off without calling it.

Functions whose references are what they were do what they did: then they need not be traced to find that out, which
takes milliseconds.  What is followed are closures, defaults, globals that the code names, containers, and partial
functions; constants are compared by identity, arrays by what is in them.  Anything else (objects with attributes,
modules of the user's, builtins that look outside) cannot be told, and is left to tracing.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, final

import jax
import numpy as np

_LIBRARIES = {"jax", "jaxlib", "numpy", "math", "operator"}
"""Whose contents do not change."""

_OUTSIDE = {"config", "fromfile", "fromregex", "genfromtxt", "load", "loadtxt", "memmap", "random"}
"""Names in them of what does."""

_PURE = {
    vars(builtins)[name]
    for name in (
        "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "int",
        "isinstance", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "set", "slice", "sorted",
        "str", "sum", "tuple", "zip",
    )
}  # fmt: skip

OPTIONS = "jax_enable_x64", "jax_default_matmul_precision"
"""Of JAX, on which it depends what a function is traced to."""

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)


class UnclearError(Exception):
    """Something is referred to that may change unseen."""


@final
class References:
    """Of some functions, with what tells them apart; constants and functions are kept alive, so that `is` means it."""

    def __init__(self, functions: Iterator[Callable[..., Any]]) -> None:
        self.found: list[Any] = [getattr(jax.config, option) for option in OPTIONS]
        self.digests: list[bytes] = []
        self.known: set[int] = set()
        for function in functions:
            self.follow(function)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, References) or len(self.found) != len(other.found):
            return False
        return self.digests == other.digests and all(x is y for x, y in zip(self.found, other.found, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def follow(self, x: Any) -> None:
        """Note something, and what it refers to; raises `UnclearError`."""
        if isinstance(x, np.ndarray) and x.dtype != object:
            self.digests.append(blake2b(repr((x.shape, x.dtype)).encode() + x.tobytes()).digest())
            return
        self.found.append(x)
        if id(x) in self.known or type(x) in _CONSTANTS or isinstance(x, (np.generic, np.dtype)):
            return
        self.known.add(id(x))
        for part in _parts(x):
            self.follow(part)


def references(functions: Iterator[Callable[..., Any]]) -> References | None:
    """What some functions refer to, or None if it is not clear what that is."""
    try:
        return References(functions)
    except (UnclearError, RecursionError):
        return None


def _parts(x: Any) -> Iterator[Any]:
    """What has to be followed from here."""
    kind = type(x)
    if kind is FunctionType:
        yield from (x.__code__, x.__defaults__, x.__kwdefaults__, x.__dict__)
        yield from _captured(x)
        if x.__globals__.get("__name__", "").split(".")[0] not in _LIBRARIES:
            yield from _globals(x)
    elif kind is partial:
        yield from (x.func, x.args, x.keywords)
    elif kind in (tuple, list):
        yield from x
    elif kind is dict:
        yield from x.keys()
        yield from x.values()
    elif not (kind is CodeType or _is_fixed(x)):
        raise UnclearError


def _is_fixed(x: Any) -> bool:
    """Whether this is an array of JAX, a pure builtin, or belongs to a library."""
    if isinstance(x, jax.Array):
        return not isinstance(x, jax.core.Tracer)
    if isinstance(x, ModuleType):
        return x.__name__.split(".")[0] in _LIBRARIES
    if isinstance(x, (BuiltinFunctionType, type)) and x in _PURE:
        return True
    module, name = str(getattr(x, "__module__", "")), str(getattr(x, "__name__", ""))
    return module.split(".")[0] in _LIBRARIES and getattr(sys.modules.get(module), name, None) is x


def _captured(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            raise UnclearError from None


def _globals(function: FunctionType) -> Iterator[Any]:
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]
        elif hasattr(builtins, name):
            yield getattr(builtins, name)
        else:
            raise UnclearError


@lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """Globals that code names, also in functions inside it."""
    steps = list(dis.get_instructions(code))
    if _OUTSIDE & set(code.co_names) or any(step.opname == "IMPORT_NAME" for step in steps):
        raise UnclearError
    own = [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return tuple(dict.fromkeys([*own, *inner]))
