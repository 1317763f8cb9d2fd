r"""Lists of neighbours: sums over pairs of particles within a cutoff, at a cost that grows with their number.

The list of a path holds all pairs that were closer than $r_c + s$, cutoff and skin, at reference positions
$\bar x$.  **While no particle is further than $s/2$ from its reference, no pair within the cutoff is missing:**
if $|x_i - x_j| < r_c$, then $|\bar x_i - \bar x_j| \le |x_i - x_j| + |x_i - \bar x_i| + |x_j - \bar x_j| < r_c + s$.
(In a periodic box too, where the distance of nearest images obeys the same inequality.)  Listed pairs beyond the cutoff
add zero.  So the sum is that over all pairs; and beyond $s/2$ it is not a number, nor are its first and second
derivatives, wherever it is evaluated: a pair that is missed cannot go unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError, shown
from holonax.inputs.blame import definition, first_line
from holonax.inputs.checks import is_traced, positive, real_numbers, untraced
from holonax.inputs.made import Made, Recipe
from holonax.numerics.cells import close_pairs

_VECTORS = 64  # lengths of lists are multiples of it: the last few entries are computed as the others are
_SPARE = 1.1  # so much longer is a list than it must be


def pairs(
    cutoff: float,
    skin: float,
    box: Any = None,
    *,
    exclude: Any = None,
    positions: Callable[[Array], Array] | None = None,
) -> Pairs:
    """A list of neighbours, as a parameter of a system: sums over all pairs of particles within a cutoff.

    Args:
        cutoff: pairs further apart than this add nothing to a sum.
        skin: how much further a list reaches.  With a larger one lists are longer, and made anew less often.
        box: sides of a periodic box, one number or one for each dimension: distances are those of nearest images.
            None: free space.
        exclude: pairs of particles that do not count, such as the two ends of a bond, as an array (number, 2).
        positions: `positions(q)`, where the particles are, (particles, dimensions); left out, q holds their coordinates
            one after another, in three dimensions.

    A function of the system asks for the list by its name, and sums with `near.sum(potential, q, ...)`: `potential(r2)`
    of an array of squared distances.  Further arguments hold one number, or one row, for each particle; the potential
    gets those of both particles of every pair, `potential(r2, a_i, a_j)`.

    `hx.simulate` makes a list for each path, and makes it anew before anything has moved too far, so that results are
    those of the sum over all pairs.  `hx.start` and `hx.integrate` make one for the state that they begin with, and
    `system.around(q)` is the system with lists for q.  Where a list does not reach, the sum is not a number.

    Sixteen particles of a cold gas, which attract each other, in a box:

    >>> import holonax as hx, jax.numpy as jnp, numpy as np
    >>> def lagrangian(q, v, *, near):
    ...     return 0.5 * v @ v - near.sum(lambda r2: 4 * (r2**-6 - r2**-3), q)
    >>> gas = hx.System(lagrangian, parameters={"near": hx.pairs(cutoff=2.5, skin=0.5, box=6.0)})
    >>> x = np.stack(np.meshgrid([0, 1.5, 3, 4.5], [0, 3], [0, 3]), axis=-1)
    >>> start = hx.start(gas, q=x.ravel() + 0.1 * np.sin(np.arange(48)))
    >>> run = hx.simulate(gas, hx.EulerA(), start, t1=1.0, h=0.01, save_every=50)
    >>> run.q.shape, int(run.status[0])
    ((1, 3, 48), 0)
    """
    cutoff, skin = positive("cutoff", cutoff), positive("skin", skin)
    sides = None
    if box is not None:
        sides = real_numbers("box", box, "pass the sides of the box")
        if sides.ndim > 1 or not sides.size or not (np.isfinite(sides) & (sides > 0)).all():
            raise InputError(f"box = {shown(box)}: its sides must be positive, one number or one for each dimension")
        if cutoff > sides.min() / 2:
            raise InputError(
                f"cutoff = {cutoff:g} is beyond half the box, {sides.min() / 2:g}: a particle would meet two images of "
                "another one; use a smaller cutoff or a larger box"
            )
    if positions is not None and not callable(positions):
        raise InputError(f"positions = {shown(positions)} is not a function of q; write positions=lambda q: ...")
    return Pairs(cutoff, skin, sides, _excluded(exclude), positions)


def _excluded(exclude: Any) -> np.ndarray:
    """Pairs i < j of particles that do not count."""
    if exclude is None:
        return np.zeros((0, 2), np.int64)
    untraced("exclude", exclude, "pairs that depend on the state are what the list itself is for: pass whole numbers")
    found = np.asarray(exclude)
    if found.size == 0:
        return np.zeros((0, 2), np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InputError(f"exclude = {shown(exclude)}: pass pairs of particles as whole numbers, an array (number, 2)")
    if (found < 0).any():
        raise InputError(f"exclude names the particle {found.min()}; they are numbered from 0")
    if (same := found[:, 0] == found[:, 1]).any():
        where = int(np.argmax(same))
        raise InputError(f"exclude[{where}] is a pair of particle {found[where, 0]} with itself; leave it out")
    return np.sort(found, axis=1).astype(np.int64)


@final
class Pairs(Recipe):
    """How lists are made: what `hx.pairs` was called with."""

    def __init__(
        self,
        cutoff: float,
        skin: float,
        box: np.ndarray | None,
        exclude: np.ndarray,
        positions: Callable[[Array], Array] | None,
    ) -> None:
        self.cutoff, self.skin, self.box, self.exclude, self.positions = cutoff, skin, box, exclude, positions

    def _identity(self) -> Hashable:
        box = None if self.box is None else tuple(np.ravel(self.box).tolist())
        return self.cutoff, self.skin, box, self._excluded_bytes, self.positions

    @cached_property
    def _excluded_bytes(self) -> bytes:
        return self.exclude.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairs) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        box = "" if self.box is None else f", box={np.array2string(self.box, threshold=4)}"
        return f"pairs(cutoff={self.cutoff:g}, skin={self.skin:g}{box})"

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """Where the particles are."""
        return [] if self.positions is None else [self.positions]

    def sum(self, *_: Any) -> Array:
        """Refused: there is no list yet."""
        raise InputError(
            "the neighbour list has not been made, for it is not known where the particles are; system.around(q) is "
            "the system with lists for q, a plain array"
        )

    def places(self, q: Any) -> Array:
        """Where the particles are."""
        return jnp.asarray(q).reshape(-1, 3) if self.positions is None else jnp.asarray(self.positions(q))

    def shape(self, n: int, dtype: Any) -> tuple[int, int]:
        """Number of particles and of dimensions, for n coordinates; an InputError if something does not fit."""
        if self.positions is None and n % 3:
            raise InputError(
                f"q has {n} coordinates, which are not those of particles in three dimensions; say where the particles "
                "are: hx.pairs(..., positions=lambda q: q.reshape(-1, 2))"
            )
        try:
            shape = jax.eval_shape(self.places, jax.ShapeDtypeStruct((n,), dtype)).shape
        except Exception as error:
            where = definition(self.positions)
            raise InputError(f"positions raised {type(error).__name__}: {first_line(error)}{where}") from error
        if len(shape) != 2 or 0 in shape:
            raise InputError(f"positions returns shape {shape} for n = {n}; it must be (particles, dimensions)")
        particles, dimensions = shape
        if self.box is not None and self.box.size not in (1, dimensions):
            raise InputError(f"box has {self.box.size} sides but the particles move in {dimensions} dimensions")
        if (largest := self.exclude.max(initial=-1)) >= particles:
            raise InputError(f"exclude names the particle {largest}, but there are {particles}, numbered from 0")
        return particles, dimensions

    def kind(self, n: int, dtype: Any) -> PairList:
        """Of a short list."""
        entries = jax.ShapeDtypeStruct((_VECTORS,), np.int32)
        return PairList(self, entries, entries, jax.ShapeDtypeStruct(self.shape(n, dtype), dtype))

    def around(self, q: Any, room: int = 0) -> PairList:
        """A list for each state."""
        if is_traced(q):
            self.sum()
        q = np.asarray(q)
        self.shape(q.shape[-1], q.dtype)
        states = np.atleast_2d(q)
        reference = self.all_places(states)
        found = [self._close(x) for x in reference]
        most = max(len(i) for i, _ in found)
        if most > room or room == 0:
            room = _VECTORS * (int(_SPARE * most) // _VECTORS + 1)
        i, j = np.zeros((2, len(states), room), np.int32)
        for path, (one, other) in enumerate(found):
            i[path, : len(one)], j[path, : len(one)] = one, other
        made = PairList(self, i, j, reference)
        return made if q.ndim == 2 else jax.tree.map(lambda x: x[0], made)

    def all_places(self, q: np.ndarray) -> np.ndarray:
        """Where the particles of several paths are."""
        if self.positions is None:
            return q.reshape(len(q), -1, 3)
        return np.asarray(jax.vmap(self.places)(jnp.asarray(q)))

    def _close(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs within cutoff and skin, and a little more: as much as positions are rounded."""
        rounding = 8 * float(np.finfo(x.dtype).eps) * float(np.abs(x).max())
        if not np.isfinite(rounding):
            return np.zeros((2, 0), np.int32)  # type: ignore[return-value]
        box = None if self.box is None else np.broadcast_to(self.box, x.shape[1:])
        i, j = close_pairs(x.astype(float), self.cutoff + self.skin + rounding, box)
        if len(self.exclude):
            numbers = self.exclude @ np.array([len(x), 1])
            counts = ~np.isin(i.astype(np.int64) * len(x) + j, numbers)
            i, j = i[counts], j[counts]
        return i, j


@final
@jax.tree_util.register_pytree_node_class
class PairList(Made):
    """Pairs of particles i < j, in order, and where the particles were; the rest of the arrays holds i = j = 0."""

    def __init__(self, recipe: Pairs, i: Any, j: Any, reference: Any) -> None:
        self.recipe: Pairs = recipe
        self.i, self.j, self.reference = i, j, reference

    def tree_flatten(self) -> tuple[tuple[Any, Any, Any], Pairs]:
        """For JAX: arrays, and what is constant."""
        return (self.i, self.j, self.reference), self.recipe

    @classmethod
    def tree_unflatten(cls, recipe: Pairs, arrays: tuple[Any, Any, Any]) -> PairList:
        """For JAX."""
        return cls(recipe, *arrays)

    def __repr__(self) -> str:
        return f"{self.recipe!r}, made for {self.reference.shape[-2]} particles"

    @property
    def room(self) -> int:
        """How many pairs a list can hold."""
        return int(self.i.shape[-1])

    def sum(self, potential: Callable[..., Array], q: Array, *each: Any) -> Array:
        """The sum of `potential(r2)` over all pairs within the cutoff; not a number where the list does not reach.

        `each` holds something of each particle, of which the potential gets what belongs to the pair.
        """
        recipe, x = self.recipe, self.recipe.places(q)
        apart = _of(x, self.i) - _of(x, self.j)
        if recipe.box is not None:
            apart = apart - recipe.box * jnp.round(apart / recipe.box)
        r2 = jnp.sum(apart**2, axis=-1)
        within = (self.i != self.j) & (r2 < recipe.cutoff**2)
        numbers = [jnp.asarray(e) for e in each]
        for e in numbers:
            if e.ndim == 0 or len(e) != len(x):
                raise InputError(
                    f"near.sum(potential, q, ...) was given an array of shape {e.shape} for {len(x)} particles; "
                    "it must have a row for each"
                )
        own = [_of(e, index) for e in numbers for index in (self.i, self.j)]
        values = jnp.asarray(potential(jnp.where(within, r2, recipe.cutoff**2), *own))  # where it surely is defined
        if values.shape != r2.shape:
            raise InputError(
                f"the potential returns shape {values.shape} for {r2.shape} squared distances"
                f"{definition(potential)}; it must return one number for each"
            )
        terms = jnp.where(within, values, 0.0)
        # Of each particle first: then the sum does not depend on where in the list a pair is.
        energies = jnp.zeros(len(x), terms.dtype).at[self.i].add(terms, mode="promise_in_bounds")
        moved = self._moved(q)
        spoilt = jnp.where(self.reaches(moved), 0.0, jnp.nan).astype(x.dtype)
        return jnp.sum(energies) + spoilt * jnp.sum(moved)  # squares, so that second derivatives are spoilt, too

    def covers(self, q: Array) -> Array:
        """Whether no particle has moved further than half the skin."""
        return self.reaches(self._moved(q))

    def reaches(self, moved: Array) -> Array:
        """Whether the list is complete where particles have moved by the roots of these."""
        return ~jnp.any(moved > (self.recipe.skin / 2) ** 2)

    def _moved(self, q: Array) -> Array:
        return jnp.sum((self.recipe.places(q) - self.reference) ** 2, axis=-1)

    def distance(self, q: np.ndarray) -> np.ndarray:
        """The longest way of a particle of each path, over half the skin."""
        moved = np.sum((self.recipe.all_places(q) - self.reference) ** 2, axis=-1)
        return np.sqrt(moved.max(axis=-1)) / (self.recipe.skin / 2)


def _of(x: Array, index: Array) -> Array:
    return x.at[index].get(mode="promise_in_bounds")
