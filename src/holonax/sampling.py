r"""`sample`: a density on $\{g = 0\}$, by many Langevin chains.

Langevin dynamics with the Lagrangian $L = \frac12 v^T M v + \log\rho(q)$ at temperature 1 samples $\rho\,d\sigma_M$,
where $\sigma_M$ is the surface measure of the metric $M$.  In terms of what users mean by a density on a surface,

$$ d\sigma_M = \sqrt{\det M}\,\sqrt{\det(g' M^{-1} g'^T)}\;\delta(g(q))\,dq
            = \sqrt{\det M}\,\sqrt{\frac{\det(g' M^{-1} g'^T)}{\det(g' g'^T)}}\;d\sigma, $$

the first by the co-area formula with the metric $M$, the second with the Euclidean one.  Dividing by the factor in
front gives a target that does not depend on $M$: the mass matrix is then a matter of speed alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.ensemble import simulate
from holonax.errors import InputError, StepSizeWarning, whole_number
from holonax.initial import start
from holonax.methods.langevin import Langevin
from holonax.noise import check_counter, spread
from holonax.progress import Bar
from holonax.solve import Newton
from holonax.system import State, System

ROUNDS = 20
"""Warm-up takes this many rounds, the step size being corrected after each of them."""

MEASURES = ("surface", "delta")

_LARGEST_CORRECTION = 1.5  # of log h, from one round to the next
_FIRST_GUESS = 0.1
_SAFETY = 0.5  # of the smallest size at which a step had no solution, for chains that must not meet any
_ITERATIONS = 10  # Newton's usual number is 3 to 5; lanes that find nothing hold up their neighbours


@final
@dataclass(frozen=True)
class Samples:
    """Chains on the manifold.

    Attributes:
        q: positions, shape (chains, draws, n).
        step_size: the step size of the draws.
        acceptance: share of accepted proposals, per chain; all ones without Metropolis.
        energy_error: standard deviation of the energy error of a step, in units of the temperature, as inferred from
            the acceptance in warm-up, where steps without a solution count too; NaN if there was no warm-up.
        counts: number of proposals by outcome, per chain: accepted, rejected, irreversible, unsolved.
        thin: steps between two draws.
    """

    q: np.ndarray
    step_size: float
    acceptance: np.ndarray
    energy_error: float
    counts: dict[str, np.ndarray]
    thin: int

    def to_arviz(self) -> Any:
        """The chains as ArviZ's InferenceData, for effective sample sizes, R-hat and autocorrelation.

        Effective sample sizes are `arviz.ess(samples.to_arviz())`, a table of everything `arviz.summary(...)`.
        """
        try:
            import arviz
        except ImportError:
            raise InputError("to_arviz() needs ArviZ: pip install 'holonax[arviz]'") from None
        data = arviz.from_dict(posterior={"q": self.q})
        data.posterior.attrs |= {"step_size": self.step_size, "thin": self.thin, "acceptance": self.acceptance.tolist()}
        return data


def sample(
    log_density: Callable[[Array], Array],
    constraint: Callable[[Array], Array] | None,
    q0: Any,
    *,
    draws: int = 1000,
    chains: int | None = None,
    warmup: int = 1000,
    thin: int = 1,
    measure: str = "surface",
    mass: Any = None,
    metropolis: bool = True,
    step_size: float | None = None,
    target_acceptance: float = 0.9,
    target_energy_error: float = 0.1,
    friction: float = 1.0,
    splitting: str = "BAOAB",
    inner: int = 1,
    seed: int = 0,
    engine: str = "auto",
    dtype: str = "float64",
    progress: bool = True,
) -> Samples:
    r"""Sample $\rho(q) = e^{\text{log\_density}(q)}$, which need not be normalised, on the manifold $g(q) = 0$.

    Args:
        log_density: $\log\rho(q)$, a scalar.
        constraint: $g(q)$, a scalar or a vector; None for all of $R^n$.
        q0: where the chains begin, shape (n,) or (chains, n); on the manifold.
        draws: samples to keep of each chain.
        chains: number of chains; left out, as many as `q0` holds, or 4.
        warmup: steps before the first draw, in which the step size is found.
        thin: steps from one draw to the next.
        measure: what $\rho$ is a density of: "surface" (the surface measure of $\{g = 0\}$), or "delta", the measure
            $\delta(g(q))\,dq$, which is what conditioning on $g(q) = 0$ means: the surface measure times
            $\det(g' g'^T)^{-1/2}$.
        mass: mass matrix of the chains' motion, a number, n numbers or a matrix; does not change what is sampled.
        metropolis: exact, whatever the step size; otherwise the step size leaves a small bias.
        step_size: fixes it; left out, warm-up finds the one with the acceptance `target_acceptance` or, without
            Metropolis, with the energy error `target_energy_error`.
        target_acceptance: share of proposals to be accepted.
        target_energy_error: standard deviation of the energy error of a step, in units of temperature.  For a normal
            error $\sigma$ the acceptance would be $\mathrm{erfc}(\sigma/\sqrt8)$: that is how it is measured.
        friction: of the Langevin equation, positive; small values keep the direction of motion for long.
        splitting: of the step, see `hx.Langevin`.
        inner: geodesic steps in each drift; more of them where the constraint is strongly curved.
        seed: with the index of a chain it determines its noise.
        engine: as in `hx.simulate`.
        dtype: as in `hx.simulate`.
        progress: show a progress bar on long work.

    >>> import holonax as hx, jax.numpy as jnp
    >>> samples = hx.sample(lambda q: -q[2], lambda q: q @ q - 1.0, [1.0, 0.0, 0.0], chains=64, draws=500, thin=10)
    >>> samples.q.shape
    (64, 500, 3)
    >>> means = samples.q[..., 2].mean(axis=1)      # one per chain; exactly: 1 - coth(1)
    >>> bool(abs(means.mean() + 0.313035) < 5 * means.std() / 8)
    True
    """
    if measure not in MEASURES:
        raise InputError(f"measure = {measure!r}: choose one of {', '.join(map(repr, MEASURES))}")
    draws, thin, warmup = (whole_number(name, x) for name, x in (("draws", draws), ("thin", thin), ("warmup", warmup)))
    if draws < 1 or thin < 1 or warmup < 0:
        raise InputError(f"draws = {draws}, thin = {thin}, warmup = {warmup}: must be positive (warmup may be 0)")
    if step_size is None and warmup < ROUNDS:
        raise InputError(
            f"warmup = {warmup}: at least {ROUNDS} steps are needed to find the step size, or give step_size="
        )
    if not 0.0 < target_acceptance < 1.0:
        raise InputError(f"target_acceptance = {target_acceptance}: must lie between 0 and 1")
    for name, value in (("target_energy_error", target_energy_error), ("step_size", step_size)):
        if value is not None and not 0.0 < value < math.inf:
            raise InputError(f"{name} = {value}: must be positive")
    check_counter("seed", seed)
    if not np.all(np.asarray(friction) > 0):
        raise InputError(f"friction = {friction}: must be positive; without it nothing drives the chains")

    q = _places(q0, chains)
    n = q.shape[1]
    told = tuple(_fingerprint(function, n) for function in (log_density, constraint) if function is not None)
    system = _system(_Target(log_density, constraint, told, n, _mass_key(mass, n), measure))
    method = Langevin(friction, 1.0, splitting, None, inner, metropolis, Newton(max_iterations=_ITERATIONS))
    target = _energy_error(target_acceptance) if metropolis else target_energy_error
    *seeds, last_seed = spread(seed, ROUNDS + 1)
    running: dict[str, Any] = {"engine": engine, "dtype": dtype}
    found = _warm_up(system, method, start(system, q), warmup, step_size, target, seeds, running, progress)
    h = found.step_size
    running |= {"save_every": thin, "progress": progress}
    run = simulate(system, method, found.state, t1=h * draws * thin, h=h, seed=last_seed, **running)
    accepted = run.counts["accepted"] / (draws * thin) if metropolis else np.ones(len(q))
    return Samples(run.q[:, 1:], h, accepted, found.energy_error, run.counts, thin)


class _WarmedUp(NamedTuple):
    """Where the chains are after warm-up, the step size found, and the energy error that goes with it."""

    state: State
    step_size: float
    energy_error: float


def _warm_up(
    system: System,
    method: Langevin,
    state: State,
    steps: int,
    fixed: float | None,
    target: float,
    seeds: list[int],
    running: dict[str, Any],
    progress: bool,
) -> _WarmedUp:
    r"""Run Metropolis chains in rounds, and correct the step size after each until the energy error is the target.

    The energy error of a step is $O(h^3)$.  In the first half of the rounds that alone corrects the size; in the second
    half, corrections linear in the acceptance, ever smaller, take out what chance and curvature left (Robbins, Monro).

    Chains without Metropolis cannot survive a step without a solution, so theirs must stay well below any such size.
    """
    chain = method if method.metropolis else replace(method, splitting="BAOAB", metropolis=True)
    wanted = math.erfc(target / math.sqrt(8))
    slope = 3 * target * math.exp(-(target**2) / 8) / math.sqrt(2 * math.pi)  # of the acceptance, as log h decreases
    sizes, accepted, failing = [_FIRST_GUESS if fixed is None else fixed], [], [math.inf]
    rounds = min(ROUNDS, steps)
    half = rounds // 2
    with Bar(rounds, "rounds of warm-up", show=progress) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)  # trials may be too large
        for number in range(rounds):
            h, here = sizes[-1], steps * (number + 1) // rounds - steps * number // rounds
            options = running | {"save_every": None, "progress": False}
            run = simulate(system, chain, state, t1=h * here, h=h, seed=seeds[number], **options)
            state = State(run.q[:, -1], run.p[:, -1])
            proposals = here * len(run.q)
            accepted.append(run.counts["accepted"].sum() / proposals)
            if number < half:
                error = _energy_error((run.counts["accepted"].sum() + 0.5) / (proposals + 1))  # never 0
                correction = math.log(target / error) / 3
            else:
                correction = (accepted[-1] - wanted) / slope / (1 + number - half) ** 0.7
            if not method.metropolis and (run.counts["unsolved"] + run.counts["irreversible"]).any():
                failing.append(h)
                correction = min(correction, -0.5)
            if fixed is None:
                sizes.append(h * math.exp(np.clip(correction, -_LARGEST_CORRECTION, _LARGEST_CORRECTION)))
            bar.update(number + 1)
    settled = math.exp(np.mean(np.log(sizes[-(half + 1) :])))
    size = min(settled, _SAFETY * min(failing)) if fixed is None else fixed
    error = _energy_error(float(np.mean(accepted[half:]))) if accepted else math.nan
    return _WarmedUp(state, size, error * min(size / settled, 1.0) ** 3)


def _energy_error(acceptance: float) -> float:
    r"""The $\sigma$ of a normal energy error of mean $\sigma^2/2$ (as symplectic maps have) with this acceptance."""
    return math.sqrt(8) * float(jax.scipy.special.erfinv(1.0 - acceptance))


def _places(q0: Any, chains: int | None) -> np.ndarray:
    q = np.asarray(q0, float)
    if chains is not None and whole_number("chains", chains) < 1:
        raise InputError(f"chains = {chains}: must be a positive integer")
    if q.ndim == 1:
        return np.tile(q, (4 if chains is None else chains, 1))
    if q.ndim != 2 or chains not in (None, len(q)):
        raise InputError(f"q0 has shape {q.shape}; it must be (n,), or (chains, n) with chains = {chains}")
    return q


def _mass_key(mass: Any, n: int) -> tuple[tuple[float, ...], ...] | None:
    """The mass matrix as something that can be compared."""
    if mass is None:
        return None
    matrix = np.asarray(mass, float)
    if matrix.shape in ((), (n,)):
        matrix = np.diag(np.broadcast_to(matrix, n))
    if matrix.shape != (n, n) or not np.allclose(matrix, matrix.T) or not np.linalg.eigvalsh(matrix).min() > 0:
        raise InputError(f"mass must be a positive number, n = {n} of them, or a symmetric positive matrix ({n}, {n})")
    return tuple(map(tuple, (0.5 * (matrix + matrix.T)).tolist()))


@dataclass(frozen=True)
class _Target:
    """What is sampled.  Two targets are equal if their functions compute the same, whatever they close over now."""

    log_density: Callable[[Array], Array] = field(compare=False)
    constraint: Callable[[Array], Array] | None = field(compare=False)
    fingerprints: tuple[Any, ...]
    n: int
    mass: tuple[tuple[float, ...], ...] | None
    measure: str


def _fingerprint(function: Callable[[Array], Array], n: int) -> tuple[Any, ...]:
    """A traced function as text, and the values of the arrays in it."""
    traced = jax.make_jaxpr(lambda q: function(q))(jnp.zeros(n))  # JAX would remember what it has traced before
    return str(traced.jaxpr), *((x.shape, np.asarray(x).tobytes()) for x in map(np.asarray, traced.consts))


@lru_cache(maxsize=64)
def _system(target: _Target) -> System:
    """The Langevin system that samples the density; the same one, hence compiled once, for equal targets."""
    log_density, constraint, n, mass, measure = (
        target.log_density, target.constraint, target.n, target.mass, target.measure
    )  # fmt: skip
    M = np.eye(n) if mass is None else np.array(mass)
    inverse = np.linalg.inv(M)
    surface = System(lambda q, v: 0.5 * v @ M @ v, constraint, n=n)

    def potential(q: Array) -> Array:
        if constraint is None or (measure == "surface" and mass is None):
            return log_density(q)
        G = jax.jacfwd(surface.g)(q)
        if measure == "delta":
            return log_density(q) - 0.5 * _log_determinant(G @ inverse @ G.T)
        return log_density(q) - 0.5 * (_log_determinant(G @ inverse @ G.T) - _log_determinant(G @ G.T))

    return System(lambda q, v: surface.lagrangian(q, v) + potential(q), constraint, n=n)


def _log_determinant(matrix: Array) -> Array:
    """Of a symmetric positive matrix."""
    if len(matrix) == 1:
        return jnp.log(matrix[0, 0])
    return 2 * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix))))
