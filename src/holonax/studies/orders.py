"""`strong_order` and `weak_order`: measured, on one noise, against a finer reference of higher order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from holonax.errors import Interrupted, SimulationError
from holonax.inputs.checks import flag
from holonax.mechanics.closures import fingerprint, fingerprint_of
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.text import written
from holonax.numerics.newton import Status
from holonax.store.ledger import Ledger, ledger_of
from holonax.studies.arguments import Observables, StudyPlan, check_observables, plan_study
from holonax.studies.fit import batch_means, fit, resampled
from holonax.studies.lockstep import LevelStates, run_levels, squared_errors
from holonax.studies.study import Curve, Study

_TWO_SIDED = 1.96


def strong_order(
    system: System,
    method: Method,
    start: State,
    *,
    t1: float,
    h: Sequence[float],
    paths: int,
    seed: int = 0,
    sup: bool = False,
    reference: Method | None = None,
    refine: int = 16,
    on_failure: str = "raise",
    progress: bool = True,
    store: str | PathLike[str] | None = None,
) -> Study:
    """Measure the strong order: root-mean-square error of q and p at `t1` on common noise.

    Args:
        system: the system.
        method: the method to be measured.
        start: initial state of all paths.
        t1: end time, a multiple of every step size.
        h: at least two step sizes, multiples of the finest.
        paths: number of paths.
        seed: determines the noise.
        sup: measure the largest error on the grid that all levels share, instead of the error at `t1`.
        reference: what the errors are against; by default `Kicked()`, of strong order 3/2, or `Lobatto(6)`, of order
            10, for a system without noise (then the order is the deterministic one); `Langevin` is its own.
        refine: how many times finer than the finest level the reference runs.
        on_failure: "raise" if a path fails at some level, or "mark": leave it out at every level and say so.
        progress: show a progress bar on work longer than two seconds.
        store: a folder that keeps what is done: the same call goes on there after whatever interrupted it, also with
            more paths.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> study = hx.strong_order(entry.system, hx.EulerA(), entry.start, t1=1.0, h=[2**-5, 2**-6, 2**-7], paths=256)
    >>> bool(abs(study["q"].order - 1.0) < 0.15), study.h.tolist()
    (True, [0.03125, 0.015625, 0.0078125])
    """
    return strong_orders(
        system, (method,), start, t1=t1, h=h, paths=paths, seed=seed, sup=sup, reference=reference, refine=refine,
        on_failure=on_failure, progress=progress, store=store,
    )[0]  # fmt: skip


def strong_orders(
    system: System,
    methods: Sequence[Method],
    start: State,
    *,
    t1: float,
    h: Sequence[float],
    paths: int,
    seed: int = 0,
    sup: bool = False,
    reference: Method | None = None,
    refine: int = 16,
    on_failure: str = "raise",
    progress: bool = True,
    store: str | PathLike[str] | None = None,
) -> list[Study]:
    """`strong_order` of several methods against one reference, which is then computed once."""
    flag("sup", sup)
    plan = plan_study(system, methods, start, t1, h, refine, reference, on_failure, paths, seed)
    measure, summarise = partial(_strong_errors, sup), partial(_strong_studies, plan, sup)
    work = _specification("strong", plan, {"sup": bool(sup)})
    with ledger_of(store, "study", work) as ledger:
        return _whole_or_part(plan, measure, summarise, ledger, antithetic=False, progress=progress)


def _strong_errors(sup: bool, reached: LevelStates) -> tuple[Any, ...]:
    """Squared errors of q and p (methods, levels, 2, paths), with the statuses."""
    at_end = [jnp.stack(squared_errors(state, reached.reference), axis=1) for state in reached.states]
    return (reached.sup if sup else jnp.stack(at_end)), reached.status, reached.reference_status


def _strong_studies(plan: StudyPlan, sup: bool, measured: Any) -> list[Study]:
    squares, status, reference_status = measured
    studies = []
    for method, square, fate in zip(plan.methods, squares, status, strict=True):
        good, failed = _survivors(plan, fate, reference_status)
        power = _power(plan.reference == method, 2 if plan.noisy else 1)
        curves = {name: _strong_curve(plan, square[:, i, good], power) for i, name in enumerate(("q", "p"))}
        declared = method.strong_order if plan.noisy else method.order
        studies.append(_study("strong", plan, method, declared, curves, good, failed, sup=sup))
    return studies


def _strong_curve(plan: StudyPlan, squares: np.ndarray, power: int) -> Curve:
    """From squared errors (levels, paths)."""
    h = plan.levels.h
    error = np.sqrt(squares.mean(axis=-1))
    samples = np.sqrt(resampled(batch_means(squares)))
    found = fit(h, error, samples, plan.levels.h_ref, power=power)
    used, mean_abs = np.ones(len(h), bool), np.sqrt(squares).mean(axis=-1)
    return Curve(h, error, _TWO_SIDED * samples.std(axis=0), used, *found, mean_abs)


def weak_order(
    system: System,
    method: Method,
    start: State,
    *,
    t1: float,
    h: Sequence[float],
    paths: int,
    observables: Observables,
    seed: int = 0,
    exact: Mapping[str, float] | None = None,
    reference: Method | None = None,
    refine: int = 16,
    on_failure: str = "raise",
    progress: bool = True,
    store: str | PathLike[str] | None = None,
) -> Study:
    """Measure the weak order: error of the mean of `observables`, numbers `fn(q, p)`, at `t1`.

    The difference to the reference is taken path by path on common noise, and paths come in pairs on W and -W: both
    remove most of the variance.  An observable named in `exact` is compared with that number instead.  A level whose
    error is below twice its interval is noise: marked, not fitted.  Arguments otherwise as in `strong_order`; the
    default reference `Kicked()` has weak order 2.

    >>> import holonax as hx
    >>> entry = hx.systems.oscillator()
    >>> study = hx.weak_order(entry.system, hx.EulerA(), entry.start, t1=1.0, h=[0.25, 0.125, 0.0625], paths=512,
    ...                       observables={"q": lambda q, p: q[0]}, exact=None)
    >>> bool(abs(study["q"].order - 1.0) < 0.2)
    True
    """
    return weak_orders(
        system, (method,), start, t1=t1, h=h, paths=paths, observables=observables, seed=seed, exact=exact,
        reference=reference, refine=refine, on_failure=on_failure, progress=progress, store=store,
    )[0]  # fmt: skip


def weak_orders(
    system: System,
    methods: Sequence[Method],
    start: State,
    *,
    t1: float,
    h: Sequence[float],
    paths: int,
    observables: Observables,
    seed: int = 0,
    exact: Mapping[str, float] | None = None,
    reference: Method | None = None,
    refine: int = 16,
    on_failure: str = "raise",
    progress: bool = True,
    store: str | PathLike[str] | None = None,
) -> list[Study]:
    """`weak_order` of several methods against one reference, which is then computed once."""
    plan = plan_study(system, methods, start, t1, h, refine, reference, on_failure, paths, seed)
    exact = check_observables(observables, exact, plan.start.q.shape[0])
    measure = jax.jit(partial(_weak_differences, observables, exact))
    summarise = partial(_weak_studies, plan, tuple(observables), exact)
    n = plan.start.q.shape[0]
    marks = {name: fingerprint(fn, n, 2, lasting=True).hex()[:32] for name, fn in observables.items()}
    work = _specification("weak", plan, {"observables": marks, "exact": exact})
    with ledger_of(store, "study", work) as ledger:
        return _whole_or_part(plan, measure, summarise, ledger, antithetic=True, progress=progress)


def _weak_differences(observables: Observables, exact: Mapping[str, float], reached: LevelStates) -> tuple[Any, ...]:
    """Differences to the reference, or to what is known exactly (methods, levels, paths), with the statuses."""
    values = {}
    for name, fn in observables.items():
        known = exact.get(name, jax.vmap(fn)(reached.reference.q, reached.reference.p))
        values[name] = jnp.stack([jax.vmap(jax.vmap(fn))(state.q, state.p) - known for state in reached.states])
    return values, reached.status, reached.reference_status


def _weak_studies(
    plan: StudyPlan, observables: tuple[str, ...], exact: Mapping[str, float], measured: Any
) -> list[Study]:
    differences, status, reference_status = measured
    studies = []
    for i, (method, fate) in enumerate(zip(plan.methods, status, strict=True)):
        good, failed = _survivors(plan, fate, reference_status)
        good = np.repeat(good.reshape(-1, 2).all(axis=1), 2)  # a pair stays or goes as one
        if good.sum() < 4:
            raise SimulationError(f"only {good.sum() // 2} pairs of paths completed every level; use smaller steps")
        curves = {}
        for name in observables:
            power = _power(plan.reference == method and name not in exact, 1)
            curves[name] = _weak_curve(plan, differences[name][i][:, good], power)
        named = {"observables": sorted(observables), "exact": dict(exact)}
        declared = method.weak_order if plan.noisy else method.order
        studies.append(_study("weak", plan, method, declared, curves, good, failed, **named))
    return studies


def _weak_curve(plan: StudyPlan, differences: np.ndarray, power: int) -> Curve:
    """From differences (levels, paths)."""
    h = plan.levels.h
    values = differences.reshape(len(h), -1, 2).mean(axis=-1)  # pairs on W and -W are not independent
    error = np.abs(values.mean(axis=-1))
    half_width = _TWO_SIDED * values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    used = error > 2 * half_width
    samples = np.abs(resampled(batch_means(values)))[:, used]
    found = fit(h[used], error[used], samples, plan.levels.h_ref, power)
    return Curve(h, error, half_width, used, *found)


def _whole_or_part(
    plan: StudyPlan,
    measure: Callable[[LevelStates], Any],
    summarise: Callable[[Any], list[Study]],
    ledger: Ledger,
    *,
    antithetic: bool,
    progress: bool,
) -> list[Study]:
    """Run all levels in lock-step; after Ctrl-C, pass on the studies of the paths that are done."""
    try:
        measured = run_levels(plan, measure, ledger, antithetic=antithetic, progress=progress)
    except Interrupted as interrupted:
        raise Interrupted(str(interrupted), summarise(interrupted.result)) from None
    return summarise(measured)


def _specification(kind: str, plan: StudyPlan, more: Mapping[str, Any]) -> dict[str, Any]:
    """All that the numbers of a path depend on; there may be more paths later."""
    start, levels, n = plan.start, plan.levels, plan.start.q.shape[0]
    return {
        "kind": kind, "system": fingerprint_of(plan.system, n), "methods": [written(x) for x in plan.methods],
        "reference": written(plan.reference), "t1": float(plan.t1), "h": levels.h.tolist(), "h_ref": levels.h_ref,
        "seed": int(plan.seed), "q": np.asarray(start.q).tolist(), "p": np.asarray(start.p).tolist(),
        "parameters": {name: np.asarray(x).tolist() for name, x in plan.system.parameters.items()}, **more,
    }  # fmt: skip


def _power(same: bool, power: int) -> int:
    """How the error of the reference enters, if it is the method itself (see `fitted_order`)."""
    return power if same else 0


def _survivors(plan: StudyPlan, status: np.ndarray, reference_status: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which paths every level and the reference completed, and how many failed at each."""
    h = plan.levels.h
    every = np.concatenate([status, reference_status[None]])
    failed, good = (every != 0).sum(axis=1), (every == 0).all(axis=0)
    if failed.any() and plan.on_failure == "raise":
        worst = int(np.argmax(failed))
        where = f"h = {h[worst]:g}" if worst < len(h) else "the reference"
        often = Status(int(np.bincount(every[every != 0]).argmax()))
        raise SimulationError(
            f"{(~good).sum()} of {len(good)} paths failed, {failed[worst]} of them at {where}: leave out the largest "
            'step sizes, or pass on_failure="mark" to leave these paths out at every level (which biases the errors). '
            f"Most of them have the status {often.name}: {often.advice}",
            {"status": status, "reference_status": reference_status},
        )
    if good.sum() < 2:
        raise SimulationError(f"only {good.sum()} of {len(good)} paths completed every level; use smaller step sizes")
    return good, failed


def _study(
    kind: str,
    plan: StudyPlan,
    method: Method,
    declared: float,
    curves: dict[str, Curve],
    good: np.ndarray,
    failed: np.ndarray,
    **more: Any,
) -> Study:
    """Put together what was found; `more` goes into the specification."""
    start, levels, reference = plan.start, plan.levels, plan.reference
    specification = {
        "start": {"q": np.asarray(start.q).tolist(), "p": np.asarray(start.p).tolist()},
        "t1": plan.t1,
        "h": levels.h.tolist(),
        "paths": plan.paths,
        "seed": plan.seed,
        "reference": str(reference),
        "h_ref": levels.h_ref,
        **more,
    }
    return Study(
        kind, str(method), declared, levels.h, curves,
        f"{reference} at h = {levels.h_ref:g}", int(good.sum()), failed, specification,
    )  # fmt: skip
