"""What is computed at a start, for the checks of `holonax.mechanics.start`: a program in pieces, for all paths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.inputs.parameters import Values
from holonax.mechanics.closures import QUICKLY, keep_up, remembered
from holonax.mechanics.projection import project_momentum, project_position
from holonax.mechanics.rank import Bordered, Dense, Sparse, jacobian
from holonax.mechanics.redundancy import distance_from_implied
from holonax.mechanics.system import System
from holonax.numerics.host import HostProgram
from holonax.numerics.newton import Newton, Status

Axes = tuple[int | None, ...]


class StartPoint(NamedTuple):
    """What is computed at a start, for the checks."""

    q: Any
    p: Any
    v: Any
    g: Any
    implied: Any
    hidden: Any
    jacobian: Dense | Bordered | Sparse
    potentials: Any
    force: Any
    status: Any


def _evaluate(
    form: System, project: bool, q: Array, v: Array | None, p: Array | None, shared: dict, own: dict
) -> StartPoint:
    system, newton = form.given(shared | own), Newton()
    status = jnp.zeros((1,), jnp.int32)
    if project:
        q, onto_S = project_position(system, q, newton)
        status = status + onto_S.status
    if p is None:
        assert v is not None  # one of them is given
        p = system.momentum(q, v)
    else:
        v = system.velocity(q, p)
    if project:
        p, v, _, onto_cotangent = project_momentum(system, q, p, v, newton)
        status = jnp.where(status == Status.CONVERGED, onto_cotangent.status, status)
    potentials = jnp.append(system.gamma(q), system.L(q, v))
    implied = distance_from_implied(system, q) if system.implied else jnp.zeros(0)
    g, hidden, force = system.g(q), system.hidden(q, v), system.force(q, v)
    return StartPoint(q, p, v, g, implied, hidden, jacobian(system, q, v), potentials, force, status)


def _axes(q: Any, values: Values) -> Axes:
    """Which of q, v, p and the parameters of all paths and of each path have a leading axis of paths."""
    each = 0 if np.ndim(q) == 2 else None
    return each, each, each, None, 0 if values.own or each == 0 else None


def evaluation(system: System, q: Array, values: Values, project: bool, traced: bool) -> Callable[..., StartPoint]:
    """What is computed at a start, compiled; only once, unless the functions, or the start, hold traced values."""
    try:
        keep_up(system, q.shape[-1])
    except Exception:
        traced = True
    if not traced:
        return compiled_evaluation(system.form, q, values, project)
    evaluate, axes = partial(_evaluate, system.form, project), _axes(q, values)
    return jax.vmap(evaluate, axes) if 0 in axes else evaluate


def compiled_evaluation(form: System, q: Any, values: Values, project: bool) -> HostProgram:
    """The same, for numbers that are known."""
    return _compiled(form, project, _axes(q, values))


@remembered
def _compiled(form: System, project: bool, axes: Axes) -> HostProgram:
    return HostProgram(partial(_evaluate, form, project), axes, QUICKLY)
