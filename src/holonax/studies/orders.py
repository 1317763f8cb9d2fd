"""`strong_order` and `weak_order`: measured, on one noise, against a finer reference of higher order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import holonax.studies.lockstep as lockstep
from holonax.errors import Interrupted, SimulationError
from holonax.inputs.checks import flag
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.numerics.newton import Status
from holonax.studies.arguments import Observables, check_observables, prepare
from holonax.studies.fit import batch_means, fit, resampled
from holonax.studies.lockstep import Ends, Levels
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

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> study = hx.strong_order(entry.system, hx.EulerA(), entry.start, t1=1.0, h=[2**-5, 2**-6, 2**-7], paths=256)
    >>> bool(abs(study["q"].order - 1.0) < 0.15), study.h.tolist()
    (True, [0.03125, 0.015625, 0.0078125])
    """
    return strong_orders(
        system, (method,), start, t1=t1, h=h, paths=paths, seed=seed, sup=sup, reference=reference, refine=refine,
        on_failure=on_failure, progress=progress,
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
) -> list[Study]:
    """`strong_order` of several methods against one reference, which is then computed once."""
    flag("sup", sup)
    start, methods, levels, against, noisy, paths = prepare(
        system, methods, start, t1, h, refine, reference, on_failure, paths, seed
    )

    def measure(ends: Ends) -> tuple[Any, ...]:
        at_end = [jnp.stack(lockstep.squared_errors(state, ends.reference), axis=1) for state in ends.states]
        return (ends.sup if sup else jnp.stack(at_end)), ends.status, ends.reference_status

    def summarize(measured: Any) -> list[Study]:
        squares, status, reference_status = measured
        specification = _specification(levels, t1, paths, seed, against, start, sup=sup)
        studies = []
        for method, square, fate in zip(methods, squares, status, strict=True):
            good, failed = _survivors(fate, reference_status, levels, on_failure)
            curves = {}
            for quantity, name in enumerate(("q", "p")):
                values = square[:, quantity, good]
                error = np.sqrt(values.mean(axis=-1))
                samples = np.sqrt(resampled(batch_means(values)))
                found = fit(levels.h, error, samples, levels.h_ref, power=_power(against == method, 2 if noisy else 1))
                used, mean_abs = np.ones(len(levels.h), bool), np.sqrt(values).mean(axis=-1)
                curves[name] = Curve(levels.h, error, _TWO_SIDED * samples.std(axis=0), used, *found, mean_abs)
            declared = method.strong_order if noisy else method.order
            studies.append(_study("strong", method, declared, levels, curves, against, good, failed, specification))
        return studies

    return _whole_or_part(
        summarize, system, methods, against, start, levels, paths, seed, measure,
        antithetic=False, progress=progress,
    )  # fmt: skip


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
        reference=reference, refine=refine, on_failure=on_failure, progress=progress,
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
) -> list[Study]:
    """`weak_order` of several methods against one reference, which is then computed once."""
    start, methods, levels, against, noisy, paths = prepare(
        system, methods, start, t1, h, refine, reference, on_failure, paths, seed
    )
    exact = check_observables(observables, exact, start.q.shape[0])

    @jax.jit
    def measure(ends: Ends) -> tuple[Any, ...]:
        values = {}
        for name, fn in observables.items():
            known = exact.get(name, jax.vmap(fn)(ends.reference.q, ends.reference.p))
            values[name] = jnp.stack([jax.vmap(jax.vmap(fn))(state.q, state.p) - known for state in ends.states])
        return values, ends.status, ends.reference_status

    def summarize(measured: Any) -> list[Study]:
        differences, status, reference_status = measured
        seen = {"observables": sorted(observables), "exact": dict(exact)}
        specification = _specification(levels, t1, paths, seed, against, start, **seen)
        studies = []
        for i, (method, fate) in enumerate(zip(methods, status, strict=True)):
            good, failed = _survivors(fate, reference_status, levels, on_failure)
            good = np.repeat(good.reshape(-1, 2).all(axis=1), 2)  # a pair stays or goes as one
            if good.sum() < 4:
                raise SimulationError(f"only {good.sum() // 2} pairs of paths completed every level; use smaller steps")
            curves = {}
            for name in observables:
                values = differences[name][i][:, good]
                values = values.reshape(len(levels.h), -1, 2).mean(axis=-1)  # pairs on W and -W are not independent
                error = np.abs(values.mean(axis=-1))
                half_width = _TWO_SIDED * values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
                used = error > 2 * half_width
                samples = np.abs(resampled(batch_means(values)))[:, used]
                power = _power(against == method and name not in exact, 1)
                found = fit(levels.h[used], error[used], samples, levels.h_ref, power)
                curves[name] = Curve(levels.h, error, half_width, used, *found)
            declared = method.weak_order if noisy else method.order
            studies.append(_study("weak", method, declared, levels, curves, against, good, failed, specification))
        return studies

    return _whole_or_part(
        summarize, system, methods, against, start, levels, paths + paths % 2, seed, measure,
        antithetic=True, progress=progress,
    )  # fmt: skip


def _whole_or_part(summarize: Callable[[Any], list[Study]], *arguments: Any, **options: Any) -> list[Study]:
    """Run all levels in lock-step; after Ctrl-C, pass on the studies of the paths that are done."""
    try:
        measured = lockstep.run(*arguments, **options)
    except Interrupted as interrupted:
        raise Interrupted(str(interrupted), summarize(interrupted.result)) from None
    return summarize(measured)


def _power(same: bool, power: int) -> int:
    """How the error of the reference enters, if it is the method itself (see `fitted_order`)."""
    return power if same else 0


def _specification(
    levels: Levels, t1: float, paths: int, seed: int, reference: Method, start: State, **more: Any
) -> dict[str, Any]:
    return {
        "start": {"q": np.asarray(start.q).tolist(), "p": np.asarray(start.p).tolist()},
        "t1": t1,
        "h": levels.h.tolist(),
        "paths": paths,
        "seed": seed,
        "reference": str(reference),
        "h_ref": levels.h_ref,
        **more,
    }


def _survivors(
    status: np.ndarray, reference_status: np.ndarray, levels: Levels, on_failure: str
) -> tuple[np.ndarray, np.ndarray]:
    """Which paths every level and the reference completed, and how many failed at each."""
    fates = np.concatenate([status, reference_status[None]]) != 0
    failed, good = fates.sum(axis=1), ~fates.any(axis=0)
    if failed.any() and on_failure == "raise":
        worst = int(np.argmax(failed))
        where = f"h = {levels.h[worst]:g}" if worst < len(levels.h) else "the reference"
        raise SimulationError(
            f"{(~good).sum()} of {len(good)} paths failed, {failed[worst]} of them at {where}: leave out the largest "
            'step sizes, or pass on_failure="mark" to leave these paths out at every level (which biases the errors). '
            f"{Status(int(status[status != 0][0]) if status.any() else 1).advice}",
            {"status": status, "reference_status": reference_status},
        )
    if good.sum() < 2:
        raise SimulationError(f"only {good.sum()} of {len(good)} paths completed every level; use smaller step sizes")
    return good, failed


def _study(
    kind: str,
    method: Method,
    declared: float,
    levels: Levels,
    curves: dict[str, Curve],
    reference: Method,
    good: np.ndarray,
    failed: np.ndarray,
    specification: dict[str, Any],
) -> Study:
    text = f"{reference} at h = {levels.h_ref:g}"
    return Study(kind, str(method), declared, levels.h, curves, text, int(good.sum()), failed, specification)
