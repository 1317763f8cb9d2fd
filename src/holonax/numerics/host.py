"""Programs in pieces: JAX computes what is in between, and sparse eliminations are done by NumPy, on the host.

XLA takes seconds to compile a sparse elimination, tens of seconds with much fill-in, and then runs it in milliseconds.
For a program that runs once or twice, such as the checks of a start, that is nearly all of its time.  So it is cut at
the equations that eliminate, roots (`holonax.numerics.newton`) and matrices (`holonax.numerics.sparse_matrices`): the
pieces are compiled in a fraction of a second, and NumPy works through lists (`holonax.numerics.tape_factors`).  The
rounds of Newton's method are those of compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import Jaxpr

from holonax.numerics.cutting import Cut, Piece, Step, cut_at
from holonax.numerics.newton import Iterate, Newton, root_p
from holonax.numerics.roundoff import with_magnitudes
from holonax.numerics.sparse_matrices import SparseMatrices, eliminated_p
from holonax.numerics.structure import Sketch, SparseElimination
from holonax.numerics.tape_factors import TapeFactors

WORKSPACE = 2**24
"""Numbers in the workspace of paths that are eliminated at the same time, unless a single one has more."""

MOST_SHAPES = 8
"""Shapes of arguments, such as numbers of paths, whose programs are kept."""

Compile = Callable[[Callable[..., Any], Sequence[int | None]], Any]
"""Makes a program of a function of one path, given the axes of paths of its arguments."""


class _Pieces(NamedTuple):
    """A traced program, what computes its pieces and what is left between them, and the shape of its results."""

    program: Cut
    compiled: list[Callable[..., Sequence[Any]]]
    left: list[list[Callable[..., Sequence[Any]]]]
    shape: Any

    def __call__(self, arguments: list[Array]) -> Any:
        known = {**self.program.given, **dict(enumerate(arguments))}
        for piece, compiled, left in zip(self.program.pieces, self.compiled, self.left, strict=True):
            known.update(zip(piece.outputs, compiled(*(known[i] for i in piece.inputs)), strict=True))
            for step, on_host in zip(piece.left, left, strict=True):
                known.update(zip(step.outputs, on_host(*(known[i] for i in step.inputs)), strict=True))
        return jax.tree.unflatten(self.shape, [self._for_paths(i, known) for i in self.program.results])

    def _for_paths(self, number: int, known: dict[int, Any]) -> Array:
        """A result, with an axis of paths if there are any."""
        result, mapped = jnp.asarray(known[number]), self.program.mapped
        if not mapped or number in mapped:
            return result
        return jnp.broadcast_to(result, (len(known[min(mapped)]), *result.shape))


@final
class HostProgram:
    """A function of one path as a program in pieces: what `jax.jit` of its `jax.vmap` computes.

    `axes` are 0 for arguments that have a leading axis of paths, None for the others; `options` are those of XLA.
    """

    def __init__(self, function: Callable[..., Any], axes: tuple[int | None, ...], options: dict[str, Any]) -> None:
        self.function, self.axes, self.options = function, axes, options
        self.in_pieces = lru_cache(MOST_SHAPES)(self._in_pieces)

    def __call__(self, *arguments: Any) -> Any:
        """The results, with a leading axis of paths if an argument has one."""
        leaves, tree = jax.tree.flatten(arguments)
        leaves = [jnp.asarray(x) for x in leaves]
        return self.in_pieces(tree, tuple(map(jax.typeof, leaves)))(leaves)

    def _in_pieces(self, tree: Any, kinds: tuple[Any, ...]) -> _Pieces:
        arguments = jax.tree.unflatten(tree, kinds)
        mapped = [axis == 0 for x, axis in zip(arguments, self.axes, strict=True) for _ in jax.tree.leaves(x)]
        one_path = [
            jax.ShapeDtypeStruct(x.shape[has_paths:], x.dtype, weak_type=x.weak_type)
            for x, has_paths in zip(kinds, mapped, strict=True)
        ]

        def flat(*leaves: Array) -> Any:
            return self.function(*jax.tree.unflatten(tree, leaves))

        traced, shapes = jax.make_jaxpr(flat, return_shape=True)(*one_path)
        program = cut_at(_is_for_host, traced, mapped)
        compiled = [self._piece(program, piece) for piece in program.pieces]
        left = [[self._on_host(program, step) for step in piece.left] for piece in program.pieces]
        return _Pieces(program, compiled, left, jax.tree.structure(shapes))

    def _piece(self, program: Cut, piece: Piece) -> Callable[..., Sequence[Any]]:
        axes = [[0 if i in program.mapped else None for i in numbers] for numbers in (piece.inputs, piece.outputs)]
        return self._compile(partial(program.evaluate, piece), *axes)

    def _on_host(self, program: Cut, step: Step) -> Callable[..., Sequence[Any]]:
        parameters, axes = step.equation.params, [0 if i in program.mapped else None for i in step.inputs]
        if step.equation.primitive is root_p:
            return _Root(self._compile, axes, **parameters)
        return partial(_on_tape, _eliminated, parameters["matrices"], 0 in axes)

    def _compile(self, function: Callable[..., Any], axes: Sequence[int | None], results: Any = 0) -> Any:
        """A program of all paths; results have an axis of paths if an argument has."""
        if any(axis == 0 for axis in axes):
            function = jax.vmap(function, tuple(axes), results)
        return jax.jit(function, compiler_options=self.options)


def _is_for_host(equation: Any) -> bool:
    if equation.primitive is root_p:
        return equation.params["sketch"].structure is not None
    return equation.primitive is eliminated_p


class _Root:
    """Newton's method for equations with a sparse Jacobian; called as its equation of the traced program is."""

    def __init__(
        self,
        compiled: Compile,
        axes: list[int | None],
        *,
        equations: Jaxpr,
        newton: Newton,
        motions: int,
        sketch: Sketch,
    ) -> None:
        structure = sketch.structure
        assert structure is not None  # or it would not be done here
        self.matrices, self.axes = structure.matrices, axes
        paths = 0 if 0 in axes else None

        def evaluate(x: Array, sizes: Array, *constants: Array) -> tuple[Array, ...]:
            values, magnitudes = with_magnitudes(equations, constants, x, sizes)
            parts = partial(jax.core.eval_jaxpr, equations, constants)
            entries = SparseElimination(parts, x, structure, motions).entries(x)
            masses = entries[structure.momenta.diagonal]
            return jnp.concatenate(values), jnp.concatenate(magnitudes), entries, masses

        def advance(it: Iterate, *found: Array) -> tuple[Iterate, Array]:
            going = newton.unfinished(it)
            it = jax.tree.map(partial(jnp.where, going), newton.improved(it, *found), it)
            return it, newton.unfinished(it)

        self.begin = compiled(lambda x: newton.begin(x, motions), [paths])
        self.evaluate = compiled(evaluate, [paths, paths, *axes[1:]])
        self.advance = compiled(advance, [paths] * 8)
        self.outcome = compiled(newton.outcome, [paths])

    def __call__(self, x: Array, *constants: Array) -> list[Array]:
        if self.axes[0] is None and 0 in self.axes:
            x = jnp.broadcast_to(x, (len(constants[self.axes.index(0) - 1]), *x.shape))
        it, going = self.begin(x), True
        while np.any(going):
            value, magnitude, entries, masses = self.evaluate(it.x, it.motions, *constants)
            solved = _on_tape(_update, self.matrices, 0 in self.axes, entries, value)
            it, going = self.advance(it, x, value, magnitude, *solved, masses)
        x, outcome = self.outcome(it)
        return [x, *outcome]


def _on_tape(
    function: Callable[..., Sequence[np.ndarray]], matrices: SparseMatrices, paths: bool, *operands: Array
) -> Sequence[np.ndarray]:
    """A function of matrices and of arrays with paths last, of one path or of all: some of them at a time."""
    arrays = [np.asarray(x) for x in operands]
    if not paths:
        return function(matrices, *arrays)
    together = max(1, WORKSPACE // matrices.tape.places)
    parts = [
        function(matrices, *(np.moveaxis(x[begin : begin + together], 0, -1) for x in arrays))
        for begin in range(0, max(len(arrays[0]), 1), together)
    ]
    return [np.moveaxis(np.concatenate(part, axis=-1), -1, 0) for part in zip(*parts, strict=True)]


def _update(matrices: SparseMatrices, entries: np.ndarray, value: np.ndarray) -> Sequence[np.ndarray]:
    """As that of `SparseElimination`."""
    factors = TapeFactors(matrices.tape, entries)
    return -factors.solve(value), factors.singular, factors.signs[matrices.motions :]


def _eliminated(matrices: SparseMatrices, entries: np.ndarray, *right: np.ndarray) -> Sequence[np.ndarray]:
    """What `eliminated_p` stands for."""
    factors = TapeFactors(matrices.tape, entries)
    return [factors.solve(*right) if right else factors.margins]
