r"""`sample`: a density on $\{g = 0\}$, by many Langevin chains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike
from typing import Any, NamedTuple, final

import jax
import numpy as np
from jax import Array

from holonax.errors import InputError, Interrupted, SimulationError, StepSizeWarning, shown
from holonax.inputs.checks import at_least, choice, count_of_steps, flag, memory, positive, real_number, real_numbers
from holonax.mechanics.closures import fingerprint_of
from holonax.mechanics.noise import check_counter, several_seeds
from holonax.mechanics.start import start
from holonax.mechanics.system import State, System
from holonax.methods.langevin.method import Langevin
from holonax.methods.text import written
from holonax.numerics.newton import Newton
from holonax.progress import Bar
from holonax.sampling.target import MEASURES, langevin_system
from holonax.simulation.simulate import simulate
from holonax.store.ledger import Ledger, ledger_of
from holonax.warn import warn

ROUNDS = 20
"""Warm-up takes this many rounds, the step size being corrected after each of them."""

STUCK = 0.01
"""Share of accepted proposals below which there are no samples to speak of."""

PATIENCE = Newton(max_iterations=10)
"""Newton's usual number of iterations is 3 to 5; lanes that find nothing hold up their neighbours."""

_LARGEST_CORRECTION = 1.5  # of log h, from one round to the next
_FIRST_GUESS = 0.1
_SAFETY = 0.5  # of the smallest size at which a step had no solution, for chains that must not meet any


@final
@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        chains, draws, n = self.q.shape
        lines = [
            f"Samples: chains {chains}, draws of each {draws}, steps between draws {self.thin}, n = {n}",
            f"  step size   {self.step_size:.3g}",
            f"  acceptance  {self.acceptance.min():.2f} to {self.acceptance.max():.2f} of a chain's proposals",
        ]
        if self.counts:
            lines.append("  proposals   " + ", ".join(f"{x.sum()} {name}" for name, x in self.counts.items()))
        return "\n".join(lines)

    def to_arviz(self) -> Any:
        """The chains for ArviZ 1, an xarray.DataTree, for effective sample sizes, R-hat and autocorrelation.

        Effective sample sizes are `arviz.ess(samples.to_arviz())`, a table of everything `arviz.summary(...)`; where
        ArviZ itself is not installed, the same functions are in `arviz_stats`.
        """
        try:
            import arviz_base
        except ImportError:
            raise InputError("to_arviz() needs ArviZ: pip install 'holonax[arviz]'") from None
        told = {"step_size": self.step_size, "thin": self.thin, "acceptance": self.acceptance.tolist()}
        return arviz_base.from_dict({"posterior": {"q": self.q}}, attrs={"posterior": told})


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
    store: str | PathLike[str] | None = None,
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
        store: a folder such as "samples.zarr" for the draws, and for warm-up.  Called again with the same arguments,
            after whatever interrupted it, `sample` goes on there; with more draws, it adds them.

    >>> import holonax as hx, jax.numpy as jnp
    >>> samples = hx.sample(lambda q: -q[2], lambda q: q @ q - 1.0, [1.0, 0.0, 0.0], chains=64, draws=500, thin=10)
    >>> samples.q.shape
    (64, 500, 3)
    >>> means = samples.q[..., 2].mean(axis=1)      # one per chain; exactly: 1 - coth(1)
    >>> bool(abs(means.mean() + 0.313035) < 5 * means.std() / 8)
    True
    """
    draws, thin, warmup, step_size = _checked(draws, thin, warmup, step_size)
    choice("measure", measure, MEASURES)
    flag("metropolis", metropolis)
    _check_targets(target_acceptance, target_energy_error)
    check_counter("seed", seed)
    if not np.all(real_numbers("friction", friction, "pass a positive number") > 0):
        raise InputError(f"friction = {shown(friction)}: must be positive; without it nothing drives the chains")

    q = _places(q0, chains)
    n = q.shape[1]
    count_of_steps(draws * thin, f"draws = {draws} with thin = {thin} are {draws * thin} steps", "draw fewer")
    memory(f"draws = {draws} of {len(q)} chains", 16 * len(q) * draws * n, "draw fewer, with a larger thin=")
    system = langevin_system(log_density, constraint, n, mass, measure)
    method = Langevin(friction, 1.0, splitting, None, inner, metropolis, PATIENCE)
    target = _energy_error(target_acceptance) if metropolis else target_energy_error
    *seeds, last_seed = several_seeds(seed, ROUNDS + 1)
    running: dict[str, Any] = {"engine": engine, "dtype": dtype}
    begin = start(system, q)
    work = {
        "density": fingerprint_of(system, n), "method": written(method), "steps": warmup, "target": target,
        "step_size": step_size, "seed": int(seed), "q0": blake2b(np.asarray(begin.q).tobytes()).hexdigest(), **running,
    }  # fmt: skip
    with _told(store), ledger_of(store, "warmup", work) as ledger:
        found = _warm_up(system, method, begin, warmup, step_size, target, seeds, running, progress, ledger)
    h = found.step_size
    running |= {"save_every": thin, "progress": progress, "store": store}
    with _told(store), warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", StepSizeWarning)
        run = simulate(system, method, found.state, t1=h * draws * thin, h=h, seed=last_seed, **running)
    accepted = run.counts["accepted"] / (draws * thin) if metropolis else np.ones(len(q))
    samples = Samples(run.q[:, 1:], h, accepted, found.energy_error, run.counts, thin)
    if accepted.mean() < STUCK and len(q) * draws * thin >= 1 / STUCK:
        raise SimulationError(_describe_standstill(samples), samples)
    for warning in raised:
        warn(str(warning.message), warning.category)
    return samples


@contextmanager
def _told(store: Any) -> Iterator[None]:
    """Say after Ctrl-C how to go on, if there is a store."""
    try:
        yield
    except KeyboardInterrupt as error:
        if store is None:
            raise
        message = f"interrupted; the same call of hx.sample with store={str(store)!r} goes on"
        raise Interrupted(message, getattr(error, "result", None)) from None


def _checked(draws: Any, thin: Any, warmup: Any, step_size: Any) -> tuple[int, int, int, float | None]:
    """The numbers of steps, and the step size if it is given."""
    draws, thin = (at_least(1, name, x, "must be positive") for name, x in (("draws", draws), ("thin", thin)))
    warmup = at_least(0, "warmup", warmup, "must be 0 or positive")
    if step_size is None and warmup < ROUNDS:
        raise InputError(
            f"warmup = {warmup}: at least {ROUNDS} steps are needed to find the step size, or give step_size="
        )
    return draws, thin, warmup, None if step_size is None else positive("step_size", step_size)


def _check_targets(acceptance: Any, energy_error: Any) -> None:
    if not 0.0 < real_number("target_acceptance", acceptance) < 1.0:
        raise InputError(f"target_acceptance = {acceptance}: must lie between 0 and 1")
    positive("target_energy_error", energy_error)


def _describe_standstill(samples: Samples) -> str:
    counts = {name: int(number.sum()) for name, number in samples.counts.items()}
    outcomes = ", ".join(f"{number} {name}" for name, number in counts.items())
    return (
        f"the chains stand still: at step_size = {samples.step_size:.3g} the proposals were {outcomes}; give a smaller "
        "step_size or a longer warmup, scale the coordinates alike (mass=), or, where most are unsolved or not "
        "reversible, make the constraints independent. The samples are in .run of this error."
    )


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
    ledger: Ledger,
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
    if (record := ledger.read("rounds")) is not None:
        sizes, accepted, failing = (record.words[name] for name in ("sizes", "accepted", "failing"))
        state = State(record.arrays["q"], record.arrays["p"])
    with Bar(rounds, "rounds of warm-up", show=progress) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)  # trials may be too large
        for number in range(len(accepted), rounds):
            h, here = sizes[-1], steps * (number + 1) // rounds - steps * number // rounds
            options = running | {"save_every": None, "progress": False}
            run = simulate(system, chain, state, t1=h * here, h=h, seed=seeds[number], **options)
            state = State(run.q[:, -1], run.p[:, -1])
            proposals = here * len(run.q)
            accepted.append(float(run.counts["accepted"].sum() / proposals))
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
            done = {"sizes": sizes, "accepted": accepted, "failing": failing}
            ledger.write("rounds", done, {"q": state.q, "p": state.p})
            bar.update(number + 1)
    settled = math.exp(np.mean(np.log(sizes[-(half + 1) :])))
    size = min(settled, _SAFETY * min(failing)) if fixed is None else fixed
    error = _energy_error(float(np.mean(accepted[half:]))) if accepted else math.nan
    return _WarmedUp(state, size, error * min(size / settled, 1.0) ** 3)


def _energy_error(acceptance: float) -> float:
    r"""The $\sigma$ of a normal energy error of mean $\sigma^2/2$ (as symplectic maps have) with this acceptance."""
    return math.sqrt(8) * float(jax.scipy.special.erfinv(1.0 - acceptance))


def _places(q0: Any, chains: int | None) -> np.ndarray:
    q = real_numbers("q0", q0, "pass n coordinates, such as [1.0, 0.0, 0.0], or such a row for each chain")
    if chains is not None:
        at_least(1, "chains", chains, "must be a positive integer")
    if q.ndim not in (1, 2) or q.shape[-1] == 0 or (q.ndim == 2 and chains not in (None, len(q))):
        raise InputError(f"q0 has shape {q.shape}; it must be (n,), or (chains, n) with chains = {chains}")
    if q.ndim == 2:
        return q
    chains = 4 if chains is None else chains
    memory(f"the states of chains = {chains}", 16 * chains * len(q), "use fewer")
    return np.tile(q, (chains, 1))
