"""Noise in large numbers, as a loop: written out, it would leave no room for anything else in the cache of code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive

from holonax.compiler.frontend.translate import array_of, look, primitive, translate_closed
from holonax.compiler.ir.graph import Build, Table
from holonax.mechanics import noise

BLOCK = 3
"""The place of the block among the arguments of these functions."""


def _register(drawn: Primitive, function: Callable[..., Any]) -> None:
    """Translate a primitive of noise, with two numbers for each block: as a table where the target wishes."""

    def pairs(build: Build, equation: Any, arguments: list[np.ndarray]) -> np.ndarray:
        own = zip(arguments, equation.invars, strict=True)
        types = [jax.ShapeDtypeStruct(x.shape, variable.aval.dtype) for x, variable in own]
        (result,) = look(translate_closed(build, jax.make_jaxpr(function)(*types), arguments))
        return result

    @primitive(drawn.name)
    def draw(build: Build, equation: Any, *inputs: np.ndarray) -> np.ndarray:
        arguments, tables = list(inputs), build.tables
        number = arguments[BLOCK].size
        if tables is None or tables.primitive is not drawn or number <= tables.written_out:
            return pairs(build, equation, arguments)
        table = Table(build, tables.per_round)
        arguments[BLOCK] = array_of([table.index + i for i in range(tables.per_round)], (tables.per_round,))
        table.outputs = list(pairs(build, equation, arguments).flat)
        return array_of([table.entry(build, k) for k in range(2 * number)], (number, 2))


_register(noise.normal_pairs_p, noise.normal_pairs)
_register(noise.random_words_p, noise.random_words)
