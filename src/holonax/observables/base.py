"""What an observable is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, Self, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.errors import InputError, whole_number
from holonax.inputs.checks import choice, memory
from holonax.inputs.foreign import Foreign
from holonax.inputs.parameters import asked_for, check_names, recipes_in, required
from holonax.mechanics.closures import fingerprint, keep_up_with
from holonax.mechanics.system import MethodOf, System
from holonax.numerics.batching import over_paths
from holonax.observables.view import Grid, Readings, View

Over = Literal["paths", "time", "all"]


@dataclass(frozen=True)
class Observable(ABC):
    """A statistic of `fn(q, p)`, number or array of one state, that is gathered while the paths run.

    `fn` may ask for parameters of the system by keyword-only arguments, as the system's own functions do.

    Attributes:
        fn: the quantity.
        every: it is seen at the start and at every `every`-th step.  None: every step; over the paths, the saved times.
        over: what the statistic is taken over: `"paths"` (one result per time), `"time"` (one result per path), or
            `"all"`, the values of all paths at all times together.
        after: states before this step are not seen: the time that a path takes to forget its start.

    A path that fails is seen up to its last good state.  A value that is not a number spoils what it is part of, or is
    counted as such.  Where nothing was seen, the result is not a number.

    To write one: a summary is a tree of arrays that holds the statistic of some of the values.  `nothing`,
    `summarise` and `combine` say what it is of none, of a block and of two disjoint sets of values; `combine` is
    associative, with `nothing` as its neutral element.  Over the paths, the summaries of the times are put side by
    side, those of chunks of paths combined; over time, the other way round.  What depends on the order of the values
    within a path carries more than a summary through the blocks of a chunk: it has its own `begin`, `update`, `close`.
    """

    fn: Callable[..., Any]
    _: KW_ONLY
    every: int | None = None
    over: Over = "all"
    after: int = 0

    meaningful: ClassVar[tuple[Over, ...]] = ("paths", "time", "all")

    def __post_init__(self) -> None:
        quantity = self._quantity(dict.fromkeys(required(self.fn), 0.0) if callable(self.fn) else {})
        quantity.check()
        if self.every is not None and whole_number("every", self.every) < 1:
            raise InputError(f"every = {self.every}: must be a positive number of steps, or None")
        choice("over", self.over, self.meaningful)
        if whole_number("after", self.after) < 0:
            raise InputError(f"after = {self.after}: must be 0 or a positive number of steps")
        quantity.check_signature()

    def _quantity(self, parameters: Mapping[str, Any]) -> Foreign:
        return Foreign("fn", self.fn, ("q", "p"), "array", parameters)

    def fingerprint(self, n: int, parameters: Mapping[str, Any]) -> str:
        """Of what `fn` computes; the same in another process."""
        return fingerprint(self.fn, n, 2, self._quantity(parameters).asked(n), lasting=True).hex()[:32]

    def about(self, system: System) -> Self:
        """The same, where `fn` is a method of the simulated system, such as `system.energy`: with the run's parameters.

        A system with other values than the simulated one is another system: its methods keep them.
        """
        owner = getattr(self.fn, "__self__", None)
        if not (isinstance(owner, System) and owner.parameters and owner == system):
            return self
        return replace(self, fn=MethodOf(system.form, self.fn.__name__))

    @final
    def view(
        self,
        steps: int,
        save_every: int | None,
        paths: int,
        t0: float,
        t1: float,
        n: int,
        dtype: str,
        parameters: Mapping[str, Any],
    ) -> View:
        """What this observable will see of a run, or an InputError."""
        check_names("fn", self.fn, parameters)
        quantity = self._quantity(parameters)
        shape = quantity.result(n, dtype).shape
        keep_up_with(self.fn, n, quantity.asked(n))
        every = self.every or (save_every if self.over == "paths" else 1)
        view = View(Grid(every, steps, self.after), paths, t0, t1, shape)
        results = {"paths": view.grid.times, "time": paths, "all": 1}[self.over]
        memory(
            f"{results} results of {type(self).__name__} over {self.over!r}, each of shape {shape},",
            8 * results * math.prod(shape),
            "observe fewer numbers, a larger every=, or over='all'",
        )
        self.check(view)
        return view

    def check(self, view: View) -> None:  # noqa: B027
        """Raise an InputError if there is too little to see."""

    # On the device, while a chunk of paths runs.

    @final
    def values(self, q: Array, p: Array, parameters: Mapping[str, Array]) -> Array:
        """`fn` of states with two leading axes, times and paths, in the widest type there is; parameters per path."""

        def of_one(q: Array, p: Array, own: Mapping[str, Array]) -> Array:
            return jnp.asarray(self.fn(q, p, **own))

        asked = {name: parameters[name] for name in asked_for(self.fn, parameters)}
        if recipes_in(asked):  # long lists are not to be copied for every time
            return lax.map(lambda row: over_paths(of_one, *row, asked), (q, p)).astype(jnp.result_type(float))
        flat = [x.reshape(-1, x.shape[-1]) for x in (q, p)]
        own = {name: jnp.tile(x, (len(q), *[1] * (x.ndim - 1))) for name, x in asked.items()}  # at all times the same
        values = over_paths(of_one, *flat, own).astype(jnp.result_type(float))
        return values.reshape(*q.shape[:2], *values.shape[1:])

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of (times, paths) that the statistic is taken over."""
        return {"paths": (1,), "time": (0,), "all": (0, 1)}[self.over]

    @abstractmethod
    def nothing(self, lead: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """Summary of no values: with leading axes `lead`, of a quantity of this shape."""

    def summarise(self, readings: Readings) -> Any:
        """Summary of a block, over `self.axes`; needed over the paths, and by this class's own `update`."""
        raise NotImplementedError

    @abstractmethod
    def combine(self, one: Any, other: Any) -> Any:
        """Summary of the values of both; for NumPy's arrays and JAX's."""

    def begin(self, view: View, paths: int) -> Any:
        """What is carried through the blocks of a chunk of `paths` paths, before the first; not over the paths."""
        return self.nothing((paths,) if self.over == "time" else (), view.shape)

    def update(self, carry: Any, readings: Readings) -> Any:
        """What is carried on after one more block."""
        return self.combine(carry, self.summarise(readings))

    def close(self, carry: Any) -> Any:
        """The summary of a chunk; over time, its first axis is that of the paths."""
        return carry

    # On the host, when chunks are complete.

    @final
    def merge(self, one: Any, other: Any) -> Any:
        """Summary of two chunks, of which `other` holds the later paths."""
        if self.over == "time":
            return jax.tree.map(lambda x, y: np.concatenate([x, y]), one, other)
        return self.combine(one, other)

    @abstractmethod
    def result(self, view: View, summary: Any) -> Any:
        """What the user sees."""

    @final
    def times(self, view: View) -> np.ndarray:
        """The times of the results over the paths; otherwise the first and the last time seen."""
        return view.time(view.grid.numbers) if self.over == "paths" else view.span

    @final
    def plain(self, count: np.ndarray) -> np.ndarray:
        """A count without the axes that let it broadcast against the values."""
        return np.asarray(count).reshape(np.shape(count)[: 0 if self.over == "all" else 1])[()]
