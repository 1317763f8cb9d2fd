"""Compiled steps, kept for the next process: by what names a step, and in what form its code is kept.

A step is determined by what the user's functions do, by the method, by sizes and types, by the code of holonax and of
the libraries, and by the machine: all of that is in the name (docs/cache.md).  What the functions do is seen in what
JAX traces them to, which takes milliseconds.  Where that does not tell all, the whole step is traced, which takes some
tenths of a second: where a function has derivatives of its own, where the method is one of the user's, and where lists
of neighbours are made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from holonax import compiler
from holonax.cache.files import Cache, user_cache
from holonax.cache.identity import NamelessError, name_of_values
from holonax.cache.versions import versions
from holonax.compiler.frontend.step import trace
from holonax.inputs.parameters import asked_for, kinds
from holonax.mechanics.references import OPTIONS
from holonax.mechanics.system import System
from holonax.methods.base import Method

FROM_CACHE = "its kernel from the cache"


@final
@dataclass(frozen=True)
class StepCache:
    """What is kept of a step on a machine; nothing, where there is no cache or the step has no name."""

    cache: Cache | None = None
    name: str = ""

    @staticmethod
    def of(
        machine: tuple[str, ...],
        system: System,
        method: Method,
        n: int,
        dtype: str,
        values: dict[str, Any] | None = None,
    ) -> StepCache:
        """Of a step on a machine, for parameters of these types, if not for the system's.

        Programs that are checked after every pass have to be compiled.
        """
        cache = user_cache()
        if cache is None or compiler.CHECKED:
            return StepCache()
        try:
            what = _name(system, method, n, dtype, values)
        except NamelessError:
            return StepCache()
        options = [getattr(jax.config, option) for option in OPTIONS]
        return StepCache(cache, name_of_values(what, versions(), machine, options))

    def find(self, which: Any) -> tuple[Any, list[np.ndarray]] | None:
        """What was told of a part of it, and arrays in their order."""
        found = None if self.cache is None else self.cache.find(name_of_values(self.name, which))
        if found is None:
            return None
        told = json.loads(found.pop("told").tobytes())
        return told, [found[str(i)] for i in range(len(found))]

    def keep(self, which: Any, told: Any, arrays: list[np.ndarray]) -> None:
        """Keep what can be written as JSON, and arrays."""
        if self.cache is not None:
            written = np.frombuffer(json.dumps(told).encode(), np.uint8)
            numbered = {str(i): x for i, x in enumerate(arrays)}
            self.cache.keep(name_of_values(self.name, which), {"told": written, **numbered})


NOT_KEPT = StepCache()


def _name(system: System, method: Method, n: int, dtype: str, values: dict[str, Any] | None) -> str:
    """Of a step, by the user's functions if they tell all, otherwise by the step."""
    if not system.recipes:
        try:
            return _name_of_functions(system, method, n, dtype)
        except NamelessError:
            pass
    traced = trace(system, method, n, dtype, trial=True, values=values)
    return name_of_values("step", traced.ahead, traced.back, n, dtype)


def _name_of_functions(system: System, method: Method, n: int, dtype: str) -> str:
    given, x = kinds(system.parameters, n, dtype), jax.ShapeDtypeStruct((n,), dtype)
    functions = []
    for foreign in system.functions():
        asked = {name: given[name] for name in asked_for(foreign.function, given)}
        call = foreign.function
        # By another function, for JAX would remember what it has traced before.
        traced = jax.make_jaxpr(lambda values, *x, call=call: call(*x, **values))(asked, *[x] * len(foreign.takes))
        functions.append((foreign.name, list(asked), traced))
    shapes = [(name, kind.shape) for name, kind in given.items()]
    return name_of_values(functions, shapes, system.implied, method, n, dtype, differentiated=True)


def as_array(code: bytes) -> np.ndarray:
    """Code as it is kept."""
    return np.frombuffer(code, np.uint8)
