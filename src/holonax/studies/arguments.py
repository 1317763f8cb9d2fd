"""What studies are asked for, checked before any work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from jax import Array

from holonax.errors import InputError, shown
from holonax.inputs.checks import at_least, choice, instance, memory, real_number
from holonax.inputs.foreign import Foreign
from holonax.inputs.parameters import Values
from holonax.mechanics.noise import check_counter
from holonax.mechanics.start import A_SYSTEM, check_start
from holonax.mechanics.system import State, System
from holonax.methods import Kicked, Langevin, Lobatto
from holonax.methods.base import Method
from holonax.studies.levels import Levels
from holonax.warn import warn

Observables = Mapping[str, Callable[[Array, Array], Array]]

SLOW = 1e11
"""Path-steps of the reference from which on a study is warned of: a million in a second are many."""


@final
@dataclass(frozen=True, eq=False)
class StudyPlan:
    """All that determines the numbers of a study, checked.

    Attributes:
        system: the system.
        methods: the methods to be measured.
        start: initial state of all paths.
        t1: end time.
        levels: step sizes.
        reference: what the errors are against.
        noisy: whether there is noise at all.
        paths: number of paths.
        seed: determines the noise.
        on_failure: "raise" or "mark".
    """

    system: System
    methods: tuple[Method, ...]
    start: State
    t1: float
    levels: Levels
    reference: Method
    noisy: bool
    paths: int
    seed: int
    on_failure: str


def plan_study(
    system: System,
    methods: Sequence[Method],
    start: State,
    t1: float,
    h: Sequence[float],
    refine: int,
    reference: Method | None,
    on_failure: str,
    paths: int,
    seed: int,
) -> StudyPlan:
    """Check what can be checked before the work."""
    if not isinstance(methods, Sequence) or not methods:
        raise InputError(f"methods = {shown(methods)}: pass a list of methods, such as [hx.EulerA(), hx.Kicked()]")
    for method in methods:
        instance("method", method, Method, "pass an instance such as hx.EulerA()")
    if reference is not None:
        instance("reference", reference, Method, "pass an instance such as hx.Kicked(), or None")
    choice("on_failure", on_failure, ("raise", "mark"))
    paths = at_least(2, "paths", paths, "a study needs at least 2 paths")
    check_counter("seed", seed)
    instance("system", system, System, A_SYSTEM)
    if system.recipes:
        raise InputError(
            f"parameters[{next(iter(system.recipes))!r}] is a neighbour list, which hx.simulate makes anew on the way, "
            "and a study does not; sum over all pairs instead: x[I] - x[J] with constant index arrays"
        )
    system, start = check_start(system, start, Values.of(system.parameters, None))
    if start.q.ndim != 1:
        raise InputError(f"start.q has shape {start.q.shape}; a study starts all paths at one state")
    n = start.q.shape[-1]
    noisy = any(method.noises(system, n) for method in methods)
    own = next((method for method in methods if isinstance(method, Langevin)), None)  # an equation of its own
    reference = reference or own or (Kicked() if noisy else Lobatto(6))
    for method in (*methods, reference):
        method.check(system, start)
        if (mine := method.noises(system, n)) != (its := reference.noises(system, n)):
            raise InputError(
                f"{method} is driven by {mine} Wiener processes and the reference {reference} by {its}; "
                "they must solve the same equation with the same noise"
            )
    levels = Levels.of(h, t1, refine)
    numbers = 3 * len(methods) * len(levels.h)  # squared errors of q and p, and a status
    memory(f"the errors of paths = {paths} at {len(levels.h)} step sizes", 8 * numbers * paths, "use fewer paths")
    if (work := paths * levels.steps) > SLOW:
        warn(
            f"paths = {paths} with {levels.steps} steps of the reference each take {work:.1g} steps, which is days of "
            "work; use fewer paths, larger step sizes or a smaller refine"
        )
    return StudyPlan(system, tuple(methods), start, t1, levels, reference, noisy, paths, seed, on_failure)


def check_observables(observables: Observables, exact: Mapping[str, float] | None, n: int) -> dict[str, float]:
    """What is known exactly of the observables, after a look at both."""
    if not isinstance(observables, Mapping):
        raise InputError(f'observables = {shown(observables)}: name them: {{"height": lambda q, p: q[2]}}')
    if not observables:
        raise InputError("observables is empty; name at least one function of (q, p)")
    for name, fn in observables.items():
        quantity = Foreign(f"observable {name!r}", fn, ("q", "p"), "value")
        quantity.check(remembered=False)
        quantity.check_signature()
        quantity.result(n)
    known = {} if exact is None else exact
    if not isinstance(known, Mapping):
        raise InputError(f'exact = {shown(exact)}: name what it is of: {{"height": 0.5}}')
    if unknown := set(known) - set(observables):
        raise InputError(f"exact names {sorted(unknown)}, which are not among the observables {sorted(observables)}")
    return {name: real_number(f"exact[{name!r}]", value) for name, value in known.items()}
