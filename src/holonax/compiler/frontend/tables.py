"""Noise in large numbers, as a loop: written out, it would leave no room for anything else in the cache of code."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import jax

from holonax.compiler.frontend.translate import array_of, call, look, run_closed
from holonax.compiler.ir.graph import Build, Table
from holonax.mechanics import noise

BLOCK = 3
"""The place of the block among the arguments of these functions."""


def _as_table(function: Callable[..., Any]) -> None:
    """Let a function of `noise`, with two numbers for each block, be a table where the target wishes."""

    @call(function.__name__)
    def table_of(build: Build, equation: Any, *inputs: Any) -> list | None:
        rolling = build.rolling
        if rolling is None or rolling.what is not function or len(inputs) != len(signature(function).parameters):
            return None
        arguments = look(list(inputs))
        number = arguments[BLOCK].size
        if number <= rolling.few or not all(x.is_number(i) for i, x in enumerate(arguments[BLOCK].flat)):
            return None  # few, or a function of somebody else that has the same name
        table = Table(build, rolling.together)
        arguments[BLOCK] = array_of([table.index + i for i in range(rolling.together)], (rolling.together,))
        types = [jax.ShapeDtypeStruct(x.shape, x.flat[0].dtype) for x in arguments]
        (pairs,) = look(run_closed(build, jax.make_jaxpr(function)(*types), arguments))
        table.outputs = list(pairs.flat)
        return [array_of([table.entry(build, k) for k in range(2 * number)], (number, 2))]


_as_table(noise.normal_pairs)
_as_table(noise.random_words)
