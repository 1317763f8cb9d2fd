"""What the constraints of a system make of its points, for those who look: rods, anchors, a surface."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from holonax.mechanics.closures import QUICKLY
from holonax.mechanics.system import System
from holonax.numerics.structure import pattern
from holonax.viewer.drawing import Drawing
from holonax.viewer.level_set import Mesh, level_set

MOST_ENTRIES = 4_000_000
"""Entries of g' from which on only its pattern is asked for."""


class Linkage(NamedTuple):
    """What the constraints make of the points: rods between them and to anchors, and the surface of one point."""

    rods: np.ndarray
    anchors: np.ndarray
    surface: Mesh | None

    @classmethod
    def of(
        cls,
        drawing: Drawing,
        model: System | None,
        q: np.ndarray,
        indices: Any,
        box: tuple[np.ndarray, np.ndarray],
        cells: int,
        *,
        alike: bool,
    ) -> Linkage:
        """As the drawing says, or as the constraints do near a state q, as far as they are alike for all paths."""
        dimension, surface = len(box[0]), None
        rods, anchors = [*(drawing.rods or ())], [*drawing.anchors]
        if model is not None and model.constraint is not None and indices is not None and not model.recipes:
            constraints = _Constraints(model, q)
            touched = constraints.touched(indices)
            alone = [row for row, points in enumerate(touched) if len(points) == 1 and points[0] >= 0]
            if drawing.rods is None:
                rods += [points for points in touched if len(points) == 2 and points[0] >= 0]
            if drawing.rods is None and alike:
                for row, centre in constraints.centres(alone, [indices[touched[row][0]] for row in alone]):
                    near = 1e-6 * max(np.ptp(box, axis=0).max(), np.abs(centre - box[0]).max())
                    known = [i for i, place in enumerate(anchors) if np.abs(place - centre).max() <= near]
                    rods.append((touched[row][0], len(indices) + (known[0] if known else len(anchors))))
                    anchors += [] if known else [tuple(centre)]
            of_one_point = len(indices) == len(touched) == 1 and len(q) == dimension
            if drawing.surface and of_one_point and alike:
                order = np.argsort(indices[0])
                surface = level_set(lambda places: constraints(places[:, order])[:, 0], *box, cells)
        return cls(np.array(rods, int).reshape(-1, 2), np.array(anchors, float).reshape(-1, dimension), surface)


def is_planar(model: System, q: np.ndarray) -> bool:
    """Whether constraints depend on whole points if these are pairs of coordinates, and on parts of them if triples."""
    rows, columns = _Constraints(model, q).pattern()

    def whole(dimension: int) -> bool:
        return len({*zip(rows, columns // dimension, strict=True)}) * dimension == len(rows)

    return len(rows) > 0 and whole(2) and not whole(3)


class _Constraints:
    """The constraints of a system near a state, as a function of NumPy's arrays."""

    def __init__(self, model: System, q: np.ndarray) -> None:
        self.model, self.q = model, q
        self.k = model.sizes(len(q))[0]
        self.rows = max(64, min(8192, MOST_ENTRIES // (len(q) + self.k)))  # at a time: one shape, compiled once
        self.function = jax.jit(jax.vmap(model.g), compiler_options=QUICKLY)

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Values (m, k) at states (m, n)."""
        parts = [states[i : i + self.rows] for i in range(0, len(states), self.rows)]
        padded = [np.concatenate([part, np.repeat(part[:1], self.rows - len(part), axis=0)]) for part in parts]
        found = [np.asarray(self.function(part)) for part in padded]
        return np.concatenate(found)[: len(states)] if found else np.zeros((0, self.k))

    @property
    def _reach(self) -> float:
        """Of states that are tried out, where nothing is zero by chance."""
        return 0.1 * max(float(np.abs(self.q).max()), 1e-3)

    def touched(self, indices: Any) -> list[tuple[int, ...]]:
        """For each constraint, the points that it depends on; -1 stands for coordinates that belong to none."""
        owner = np.full(len(self.q), -1)
        for number, row in enumerate(indices):
            owner[list(row)] = number
        rows, columns = self.pattern()
        pairs = np.unique(np.stack([rows, owner[columns]], axis=1), axis=0)
        parts = np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, self.k)))
        return [tuple(int(i) for i in part) for part in parts]

    def pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of g'."""
        n = len(self.q)
        if n * self.k > MOST_ENTRIES:
            traced = jax.make_jaxpr(self.model.g)(jnp.asarray(self.q))
            return pattern(traced.jaxpr, traced.consts) or (np.zeros(0, int), np.zeros(0, int))
        near = self.q + self._reach * np.random.default_rng(0).normal(size=(2, n))
        entries = jax.jit(jax.vmap(jax.jacfwd(self.model.g)), compiler_options=QUICKLY)(near)
        return np.nonzero((np.asarray(entries) != 0).any(axis=0))  # type: ignore[return-value]

    def centres(self, rows: list[int], chosen: list[tuple[int, ...]]) -> list[tuple[int, np.ndarray]]:
        r"""Of constraints of one point each: those that keep it at a distance from a place c, and these places.

        Such a function is $a |x|^2 - 2 a c \cdot x$ and a constant.  A fit to more values than it has
        coefficients tells whether it is one.
        """
        if not rows:
            return []
        d = len(chosen[0])
        states = self.q + self._reach * np.random.default_rng(1).normal(size=(4 * (d + 2), len(self.q)))
        values, found = self(states), []
        for row, indices in zip(rows, chosen, strict=True):
            x, y = states[:, indices] - self.q[list(indices)], values[:, row]
            columns = np.column_stack([np.sum(x**2, axis=1), x, np.ones(len(x))])
            if not np.isfinite(y).all():
                continue
            fit = np.linalg.lstsq(columns, y, rcond=None)[0]
            left, a = y - columns @ fit, fit[0]
            if abs(a) * self._reach**2 > 1e-6 * np.ptp(y) and np.abs(left).max() < 1e-9 * np.ptp(y):
                centre = self.q[list(indices)] - fit[1:-1] / (2 * a)
                found.append((row, np.where(np.abs(centre) < 1e-9 * np.abs(self.q).max(), 0.0, centre)))
        return found
