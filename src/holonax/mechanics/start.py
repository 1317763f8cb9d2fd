"""`start`: an initial state, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import HolonaxError, InputError, StartError, shown
from holonax.inputs.blame import TRACED
from holonax.inputs.checks import flag, instance, is_traced, not_forked, real_numbers, untraced
from holonax.inputs.parameters import Values
from holonax.mechanics.closures import keep_up, remembered
from holonax.mechanics.good_starts import good_starts, is_made
from holonax.mechanics.rank import Rank, sizes, worst_constraint
from holonax.mechanics.redundancy import without_redundant
from holonax.mechanics.start_point import StartPoint, compiled_evaluation, evaluation
from holonax.mechanics.system import State, System
from holonax.numerics.independent_rows import LARGEST_GROUP
from holonax.numerics.newton import Status

ON_MANIFOLD = 1e-10
"""Largest |g| and |g' v| accepted at a start, relative to |g'||q| and |g'||v|, v the largest of all paths (or 32 eps in
single precision)."""

FULL_RANK = 1e-12
"""Smallest ratio of singular values accepted of g', of L_vv and of g' L_vv^-1 g'^T."""

A_SYSTEM = "build one with hx.System(lagrangian, constraint, noise), or pass .system of an entry of hx.systems"
INSTEAD = "use hx.integrate, which can be differentiated and mapped"


def start(
    system: System, q: Any, v: Any = None, p: Any = None, *, project: bool = False, parameters: Any = None
) -> State:
    r"""An initial state on $T^*S$ from a position and a velocity (or a momentum); at rest if neither is given.

    One state (`q` of shape (n,)) serves every path; shape (paths, n) holds one state per path.  `parameters` are values
    other than the system's own; with one per path, there is one state per path.

    Checked, with the number and the remedy in the error: shapes, finiteness, `k < n`, $g(q) = 0$, the hidden
    constraint $g'(q) v = 0$, the rank of $g'$, the invertibility of $L_{vv}$.  `project=True` first moves q onto S and
    then the momentum onto the cotangent space there.  Under `jit` or `grad`, where numbers are not known yet, only the
    shapes are checked.

    >>> import holonax as hx
    >>> pendulum = hx.System(lambda q, v: 0.5 * v @ v - q[2], constraint=lambda q: q @ q - 1.0)
    >>> hx.start(pendulum, q=[1.0, 0.0, 0.0], v=[0.0, 1.0, 0.5]).p
    Array([0. , 1. , 0.5], dtype=float64)
    >>> hx.start(pendulum, q=[1.0, 1.0, 0.0])
    Traceback (most recent call last):
        ...
    holonax.errors.StartError: g(q) = 1 is not zero: q is off the manifold; correct q or pass project=True
    """
    not_forked()
    instance("system", system, System, A_SYSTEM)
    flag("project", project)
    if v is not None and p is not None:
        raise StartError("both v and p are given, and one follows from the other; pass only one of them")
    q = _vectors("q", q, None)
    v = None if v is None else _vectors("v", v, q.shape)
    p = None if p is None else _vectors("p", p, q.shape)
    values = Values.of(system.parameters, parameters)
    n = q.shape[-1]
    system = without_redundant(system, q, values, project)
    check_sizes(system, n)
    check_paths(q, values)
    if v is None and p is None:
        v = jnp.zeros_like(q)
    try:
        evaluate = evaluation(system, q, values, project, is_traced((q, v, p, *values)))
        point = evaluate(q, v, p, *values.around(q))
        if project and values.recipes:  # lists are to be those of where q is now
            point = evaluate(q, v, p, *values.around(point.q))
    except HolonaxError:
        raise
    except Exception:
        system.check_derivatives(n)  # only now, for it takes as long as all else
        raise
    state = State(point.q, point.p, point.v)
    if not is_traced(point):  # the Lagrangian too may hold a traced parameter
        _check(system, point)
        good_starts(system.form, n).add(state, values)
    return state


def check_paths(q: Any, values: Values) -> None:
    """Raise unless there are as many states as parameters."""
    if np.ndim(q) == 2 and values.paths not in (None, len(q)):
        raise InputError(f"there are {len(q)} states but parameters for {values.paths} paths; make them agree")


def as_state(start: State) -> State:
    """The start as arrays whose shapes agree; it may not come from `hx.start`."""
    if not isinstance(start, State):
        raise StartError(f"start = {shown(start)} is not a state; build it with hx.start(system, q=..., v=...)")
    q = _vectors("start.q", start.q, None)
    v = None if start.v is None else _vectors("start.v", start.v, q.shape)
    return State(q, _vectors("start.p", start.p, q.shape), v)


def check_start(system: System, start: State, values: Values) -> tuple[System, State]:
    """The start as arrays, if it is a state, or one state per path, on T*S; for these parameters.

    And the system that starts there: without redundant constraints, if it may have some.
    """
    not_forked()
    untraced("start", start, INSTEAD)
    made = is_made(start)
    state = start if made else as_state(start)
    check_paths(state.q, values)
    n = state.q.shape[-1]
    try:
        system = without_redundant(system, state.q, values)
        keep_up(system, n)
    except HolonaxError:
        raise
    except Exception as error:
        check_sizes(system, n)  # says it if the functions themselves are at fault
        if isinstance(error, TRACED):
            raise InputError(
                f"the functions of the system close over values that are traced (by jax.grad, jit or vmap); {INSTEAD}"
            ) from error
        raise
    _check_once(system.form, n)
    good = good_starts(system.form, n)
    if made and good.has(state, values):
        return system, state
    state = as_state(state) if made else state
    try:
        _check(system, _at(system.form, state, values.around(state.q)))
    except StartError as error:
        if not system.parameters:
            raise
        raise StartError(f"{error}; is the start one for other parameters? pass these to hx.start too") from None
    good.add(start if made else state, values)
    return system, state


def _at(form: System, start: State, values: Values) -> StartPoint:
    """What is computed at a start; the program of `start` itself serves where the velocity is that of the momentum."""
    evaluate = compiled_evaluation(form, start.q, values, project=False)
    if start.v is not None:
        point = evaluate(start.q, start.v, None, *values)
        size = np.abs(start.p).max(axis=-1, keepdims=True)
        if np.all(np.abs(np.asarray(point.p) - start.p) <= 1e-12 * size):
            return point
    return evaluate(start.q, None, start.p, *values)


def check_sizes(system: System, n: int) -> None:
    """Raise unless the system accepts `n` coordinates and leaves at least one of them free."""
    k, _ = system.sizes(n)
    if system.n is not None and system.n != n:
        raise StartError(f"q has {n} coordinates but the system was built with n = {system.n}; they must agree")
    if k >= n:
        raise StartError(f"k = {k} constraints leave nothing free of n = {n} coordinates; k must be below n")


@remembered
def _check_once(system: System, n: int) -> None:
    """For starts of an ensemble, whose systems are kept anyway: it takes tens of milliseconds."""
    check_sizes(system, n)
    system.check_derivatives(n)


def _vectors(name: str, values: Any, shape: tuple[int, ...] | None) -> Array:
    if not is_traced(values):
        values = real_numbers(name, values, "pass n coordinates, such as [1.0, 0.0, 0.0]")
    elif jnp.issubdtype((values := jnp.asarray(values)).dtype, jnp.complexfloating):
        raise StartError(f"{name} is of type {values.dtype}; coordinates are real: pass real and imaginary parts")
    array = jnp.asarray(values, jnp.result_type(float))
    if shape is None and (array.ndim not in (1, 2) or array.shape[-1] == 0):
        raise StartError(f"{name} has shape {array.shape}; it must be (n,), or (paths, n) for one state per path")
    if shape is not None and array.shape != shape:
        raise StartError(f"{name} has shape {array.shape} but q has {shape}; they must agree")
    if not isinstance(array, jax.core.Tracer) and not np.all(np.isfinite(array)):
        where = np.argwhere(~np.isfinite(np.asarray(array)))[0]
        raise StartError(f"{name}[{', '.join(map(str, where))}] = {array[tuple(where)]} is not finite; correct it")
    return array


_NEARER = "start nearer to the manifold, where the constraints nearly hold"
_NO_PROJECTION = {
    Status.NOT_CONVERGED: f"Newton's method does not get there; {_NEARER}",
    Status.OTHER_BRANCH: f"Newton's method ends on another part of the manifold than the near one; {_NEARER}",
    Status.ROUND_OFF: "round-off is too large to see whether the constraints hold; make nearly dependent ones "
    "independent, or use float64",
    Status.SINGULAR: "gradients of constraints are dependent there, one of them vanishes, or the mass matrix is "
    "singular; remove redundant constraints, or start elsewhere",
    Status.NON_FINITE: "L, g or a derivative became NaN or infinite on the way; start inside their domain, and not "
    "where the gradient of a constraint vanishes, as that of a distance does between particles in one place",
}
"""What statuses mean where no step is taken."""


def _check(system: System, point: StartPoint) -> None:
    """Raise for the first thing that is wrong."""
    if np.ndim(point.q) == 1:
        point = jax.tree.map(lambda x: np.asarray(x)[None], point)
    point = jax.tree.map(np.asarray, point)
    paths = len(point.q)

    def demand(good: np.ndarray, message: str, number: np.ndarray | Callable[[int], str]) -> None:
        if not good.all():
            path = int(np.argmin(good))
            which = f" (path {path} of {paths})" if paths > 1 else ""
            raise StartError(message.format(number(path) if callable(number) else number[path]) + which)

    rank = point.jacobian.rank()
    demand(
        ~rank.mass_is_finite | (rank.mass > FULL_RANK),
        f"the mass matrix L_vv is singular (its {rank.measure} reach down to {{:.1e}} of {rank.compared}); every "
        "velocity must enter L with a mass",
        rank.mass,
    )
    for path, status in enumerate(point.status[:, 0]):
        if status:
            which = f"the start of path {path}" if paths > 1 else "the given state"
            reason = _NO_PROJECTION.get(Status(status), Status(status).advice)
            raise StartError(f"project=True found no point of T*S near {which}: {reason}")
    values = np.concatenate([point.g, point.potentials, point.p, point.v], axis=1)
    force = ~np.isnan(point.force).any(axis=1)  # infinity may be that of XLA alone, which rounds tiny numbers to 0
    demand(
        np.isfinite(values).all(axis=1) & force & rank.gradients_are_finite & rank.mass_is_finite,
        "L, g or gamma (or a derivative) is not finite at the start, where L = {}; start inside their domain (a "
        "distance has no derivative at 0: are there two particles in one place, or a pair of a particle with itself?)",
        point.potentials[:, -1],
    )
    tolerance = max(ON_MANIFOLD, 32 * float(np.finfo(point.q.dtype).eps))
    demand(
        (np.abs(point.g) <= tolerance * rank.gradients * sizes(point.q)[:, None]).all(axis=1),
        "g(q) = {:.3g} is not zero: q is off the manifold; correct q or pass project=True",
        np.abs(point.g).max(axis=1, initial=0.0),
    )
    demand(
        (point.implied <= tolerance).all(axis=1),
        "a redundant constraint is not zero, {:.3g} of its size, where the others are: they contradict one another, or "
        "q is off the manifold; correct q or the constraints, or pass project=True",
        point.implied.max(axis=1, initial=0.0),
    )
    _check_rank(rank, demand, lambda path: worst_constraint(system, jax.tree.map(lambda x: x[path], point.jacobian)))
    demand(  # one of many may be all but at rest
        (np.abs(point.hidden) <= tolerance * rank.gradients * sizes(point.v).max()).all(axis=1),
        "g'(q) v = {:.3g} is not zero: the velocity is not tangent to S; correct it or pass project=True",
        np.abs(point.hidden).max(axis=1, initial=0.0),
    )


def _check_rank(rank: Rank, demand: Callable[..., None], worst: Callable[[int], str]) -> None:
    """Raise if constraints are dependent, or so nearly that nothing can be solved."""
    demand(
        rank.constraints > FULL_RANK,
        "the constraints are dependent: {}; remove the redundant ones, or build the system with "
        f'redundant="allow", which finds them among up to {LARGEST_GROUP} that are connected by common coordinates; '
        "start elsewhere if they are dependent at this point alone",
        worst,
    )
    demand(
        (rank.both > FULL_RANK) | (rank.constraints > 1e-5),  # whose square it is, if the mass is positive
        f"the constraints are nearly dependent ({rank.measure} of g' L_vv^-1 g'^T reach down to {{:.1e}} of "
        f"{rank.compared}), too nearly for round-off; start elsewhere, or change the constraints",
        rank.both,
    )
    demand(
        rank.both > FULL_RANK,
        "g' L_vv^-1 g'^T is singular ({:.1e}): the mass matrix is degenerate across the constraints; change L or g",
        rank.both,
    )
