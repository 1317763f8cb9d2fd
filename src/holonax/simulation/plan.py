"""What `simulate` is asked for, checked before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from holonax.engines import ENGINES
from holonax.errors import InputError, shown, whole_number
from holonax.inputs.checks import MOST_STEPS, at_least, choice, instance, number_of_steps, real_number, untraced
from holonax.inputs.parameters import Values
from holonax.mechanics.noise import check_counter
from holonax.mechanics.start import A_SYSTEM, INSTEAD, check_start
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.observables import Grid, Observable, View


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """All that determines the numbers of a run, and nothing that is made on the way to them.

    Attributes:
        system: the system.
        method: the integrator.
        start: one initial state for all paths, or one per path.
        values: parameters of the system, shared by all paths or one per path.
        t0: time at the start.
        t1: end time.
        h: step size.
        steps: number of steps.
        first_step: number that the first step has in the noise.
        paths: number of paths.
        seed: seed of the noise.
        save_every: distance of the saved steps; None saves the end alone.
        observe: observables by name.
        views: what each of them will see, by the same names.
        engine: name of the engine, or "auto".
        dtype: "float64" or "float32".
        on_failure: "raise" or "mark".
    """

    system: System
    method: Method
    start: State
    values: Values
    t0: float
    t1: float
    h: float
    steps: int
    first_step: int
    paths: int
    seed: int
    save_every: int | None
    observe: Mapping[str, Observable]
    views: Mapping[str, View]
    engine: str
    dtype: str
    on_failure: str

    @staticmethod
    def of(
        system: System,
        method: Method,
        start: State,
        *,
        parameters: Any,
        t0: Any,
        t1: Any,
        h: Any,
        first_step: Any,
        paths: Any,
        seed: Any,
        save_every: Any,
        observe: Any,
        engine: Any,
        dtype: Any,
        on_failure: Any,
    ) -> Plan:
        """From the arguments of `simulate`, or an InputError that names the wrong one, its value and the remedy."""
        given = {"t0": t0, "t1": t1, "h": h, "first_step": first_step, "paths": paths, "seed": seed}
        for name, value in given.items():
            untraced(name, value, INSTEAD)
        t0, t1, h = real_number("t0", t0), real_number("t1", t1), real_number("h", h)
        steps = number_of_steps(t0, t1, h)
        first_step = _first_step(first_step, t0, h, steps)
        check_counter("seed", seed)
        save_every = _save_every(save_every, steps)
        instance("method", method, Method, "pass an instance such as hx.Kicked()")
        observe = _observables(observe)
        _check_choices(engine, on_failure, dtype)
        instance("system", system, System, A_SYSTEM)
        untraced("parameters", parameters, INSTEAD)
        untraced("system.parameters", dict(system.parameters), INSTEAD)
        values = Values.of(system.parameters, parameters)
        system, start = check_start(system, start, values)
        paths = _number_of_paths(paths, start, values)
        n = start.q.shape[-1]
        method.check(system.around(np.atleast_2d(start.q)[0]), start)
        observe = {name: observable.about(system) for name, observable in observe.items()}
        kinds = system.form.parameters
        views = {
            name: observable.view(steps, save_every, paths, t0, t1, n, dtype, kinds)
            for name, observable in observe.items()
        }
        return Plan(
            system, method, start, values, t0, t1, h, steps, first_step, paths, int(seed), save_every,
            observe, views, engine, dtype, on_failure,
        )  # fmt: skip

    @cached_property
    def form(self) -> System:
        """What is compiled: the system without the values of its parameters."""
        return self.system.form

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return self.start.q.shape[-1]

    @property
    def grid(self) -> Grid:
        """The steps that are saved."""
        return Grid(self.save_every, self.steps)

    @property
    def times(self) -> np.ndarray:
        """The times that are saved."""
        return self.t0 + (self.t1 - self.t0) * (self.grid.numbers / self.steps)

    @property
    def stride(self) -> int:
        """The largest number that divides every step number at which something is saved or observed."""
        return math.gcd(self.grid.stride, *(view.grid.stride for view in self.views.values()))


def _save_every(asked: Any, steps: int) -> int | None:
    if asked is not None and not 1 <= (asked := whole_number("save_every", asked)) <= steps:
        raise InputError(f"save_every = {asked!r}: must be an integer from 1 to the {steps} steps, or None")
    return asked


def _check_choices(engine: Any, on_failure: Any, dtype: Any) -> None:
    choice("engine", engine, ("auto", *ENGINES))
    choice("on_failure", on_failure, ("raise", "mark"))
    choice("dtype", dtype, ("float64", "float32"))
    if jax.dtypes.canonicalize_dtype(dtype) != np.dtype(dtype):
        raise InputError('dtype = "float64" but JAX has it switched off; unset HOLONAX_ENABLE_X64 or use "float32"')


def _observables(observe: Any) -> Mapping[str, Observable]:
    if observe is None:
        return {}
    if not isinstance(observe, Mapping):
        raise InputError(f'observe = {shown(observe)}: name the observables: {{"energy": hx.Mean(system.energy)}}')
    for name, given in observe.items():
        if not isinstance(given, Observable):
            raise InputError(f"observe[{name!r}] = {shown(given)} is not an observable; wrap the function: hx.Mean(fn)")
    return observe


def _first_step(asked: Any, t0: float, h: float, steps: int) -> int:
    """As asked; otherwise what `t0` is in steps, where that is a whole number, so that a run goes on with its noise."""
    if asked is not None:
        first = at_least(0, "first_step", asked, "steps are numbered from 0 on")
    else:
        whole = round(t0 / h)
        first = whole if abs(t0 / h - whole) <= 1e-9 * max(1, whole) and whole > 0 else 0
    if first + steps > MOST_STEPS:
        raise InputError(
            f"steps {first} to {first + steps} go beyond the counter of the noise, 2**31 - 1; "
            "take fewer or larger steps, or begin with first_step=0 and another seed"
        )
    return first


def _number_of_paths(paths: Any, start: State, values: Values) -> int:
    held = len(start.q) if np.ndim(start.q) == 2 else values.paths
    if paths is None:
        return held or 1
    paths = at_least(1, "paths", paths, "must be a positive integer")
    if held not in (None, paths):
        what = f"start holds {held} states" if np.ndim(start.q) == 2 else f"parameters are given for {held}"
        raise InputError(f"paths = {paths} but {what}; leave paths out or make them agree")
    return paths
