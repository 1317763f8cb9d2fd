r"""Constrained Langevin dynamics: splittings into drift, kick and heat bath, and their exactly unbiased version."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError, shown
from holonax.inputs.checks import at_least, flag, real_number, real_numbers
from holonax.mechanics.closures import QUICKLY, remembered
from holonax.mechanics.inertia import entries_and_least
from holonax.mechanics.noise import Increment
from holonax.mechanics.system import State, System
from holonax.methods.base import Method, Report
from holonax.methods.langevin.flow import Passage
from holonax.methods.langevin.metropolis import OUTCOMES, accept_or_reject, concern
from holonax.numerics.newton import Newton

_LOOKED_AT = 64  # starts whose mass matrices are checked


@final
@dataclass(frozen=True)
class Langevin(Method):
    r"""The constrained Langevin equation, for every $L$ that is quadratic in $v$:

    $$ dq = v\,dt, \qquad dp = L_q(q, v)\,dt - \gamma\,p_{kin}\,dt + \sqrt{2 \gamma T}\,M^{1/2}\,dW + g'(q)^T d\lambda,
       \qquad g(q) = 0, $$

    with $p_{kin} = L_v(q, v) - L_v(q, 0)$, $M = L_{vv}(q)$, $M^{1/2}$ its Cholesky factor and $W$ an n-dimensional
    Wiener process.  With the potential $U(q) = -L(q, 0)$ and $H = \frac12 p_{kin} \cdot v + U$, its invariant measure
    is $e^{-H/T}$ times the Liouville measure of $T^*S$; that of $q$ alone is $e^{-U/T}$ times the surface measure of
    the metric $M$, also with gyroscopic terms.

    A step is a composition, written as a string and read from left to right, in which a letter that occurs $c$ times
    lasts $h/c$:

    * `A`: `inner` RATTLE steps for the kinetic part $L(q, v) - L(q, 0)$, that is, along a geodesic of $M$;
    * `B`: the kick $p \mapsto p - t U'(q)$, projected onto the cotangent space;
    * `O`: the heat bath at fixed $q$, exact on the cotangent space: $p_{kin} \mapsto e^{-\gamma t} p_{kin} +
      \sqrt{T(1 - e^{-2 \gamma t})}\,M^{1/2} \xi$, projected.

    "BAOAB" with `inner` > 1 is g-BAOAB (Leimkuhler and Matthews 2016).  With `core=method`, any symplectic method of
    this library takes the place of A and B: half an O, a step of the core, half an O (the geometric Langevin algorithm
    of Bou-Rabee and Owhadi 2010), and `splitting` and `inner` have no say.

    A and B are symplectic on $T^*S$ and O contracts it evenly, so a step multiplies the volume by exactly
    $e^{-\gamma h (n - k)}$.  Weak order 2 for palindromes, otherwise 1; strong order 1.

    **Noise.**  One O takes $\Delta W$; two of them take $\frac12 \Delta W \pm \sqrt3 H$, which are independent and add
    up to $\Delta W$, so that the same path can be followed at any step size.  Further pairs have Wiener processes of
    their own.

    **Metropolis.**  `metropolis=True` removes what bias the step size leaves (generalised hybrid Monte Carlo).  The
    string is read as a cycle that begins in the middle of the O: half an O, then what lies between two O's as a
    proposal ("ABBA" for BAOAB, "BAB" for OBABO; it must be a palindrome), accepted with probability
    $\min(1, e^{-\Delta H/T})$, otherwise $p \mapsto -p$, and half an O.  A proposal is also rejected if its equations
    have no solution ("unsolved"), or if the way back from it does not lead to where it came from ("irreversible"):
    Newton may find another point of $S$ than the one next to the path (`holonax.methods.langevin.metropolis`).
    `run.counts` tells all four outcomes apart.  $L$ must be even in $v$.

    Args:
        friction: $\gamma \ge 0$, a number; or one per coordinate.  Then, with $R = \mathrm{diag}\sqrt{\gamma_i}$, the
            friction is $R M R v$, the noise $\sqrt{2T} R M^{1/2} dW$ (for diagonal M just $\gamma_i p_i$), and O is
            the midpoint rule, which keeps the Gibbs measure on the cotangent space exactly too.
        temperature: $T$, in units of energy.
        splitting: a string of A, B and O.
        core: a symplectic method instead.
        inner: geodesic steps in each A.
        metropolis: accept or reject.

    The system must have no stochastic potentials: they would heat it beyond $T$.  `simulate` and the studies check
    that, and that $L$ is quadratic in $v$; `integrate` and `step`, which may be traced, do not look at $L$.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum(noise=None)
    >>> method = hx.Langevin(friction=1.0, temperature=1.0)
    >>> run = hx.simulate(entry.system, method, entry.start, t1=20.0, h=0.1, paths=2000, seed=0, save_every=None)
    >>> bool(abs(run.q[..., 2].mean() + 0.313035) < 5 * run.q[..., 2].std() / 2000**0.5)
    True
    """

    friction: float | tuple[float, ...]
    temperature: float
    splitting: str = "BAOAB"
    core: Method | None = None
    inner: int = 1
    metropolis: bool = False
    newton: Newton = field(default=Newton(), repr=False)

    symplectic: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False
    strong_order: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        friction = real_numbers("friction", self.friction, "pass a number >= 0, or one per coordinate")
        object.__setattr__(self, "friction", tuple(friction.tolist()) if friction.ndim else float(friction))
        if friction.ndim > 1 or not np.all(np.isfinite(friction) & (friction >= 0)):
            raise InputError(f"friction = {shown(self.friction)}: must be a number >= 0, or one per coordinate")
        object.__setattr__(self, "temperature", real_number("temperature", self.temperature))
        if self.temperature < 0:
            raise InputError(f"temperature = {self.temperature}: must be a number >= 0")
        at_least(1, "inner", self.inner, "each A takes at least 1 geodesic step")
        flag("metropolis", self.metropolis)
        super().__post_init__()
        if self.core is None:
            self._check_splitting()
        else:
            self._check_core(self.core)

    def _check_splitting(self) -> None:
        if not isinstance(self.splitting, str) or {*self.splitting} != {*"ABO"}:
            raise InputError(f"splitting = {self.splitting!r}: write a string of A, B and O in which each occurs")
        if not self.metropolis:
            return
        if "O" in self._proposal:
            raise InputError(
                f"splitting = {self.splitting!r}: with metropolis=True all O must be neighbours in the cycle"
            )
        if self._proposal != self._proposal[::-1]:
            raise InputError(
                f"splitting = {self.splitting!r}: with metropolis=True what lies between the O's must be a palindrome, "
                f"{self._proposal!r} is not; use BAOAB or OBABO"
            )

    def _check_core(self, core: Any) -> None:
        if not isinstance(core, Method) or not core.symplectic:
            raise InputError(f"core = {core!r} is not a symplectic method; pass one such as hx.Rattle()")
        if self.metropolis and not core.symmetric:
            raise InputError(f"core = {core!r}: with metropolis=True it must be symmetric, such as hx.Rattle()")

    @classmethod
    def typical(cls) -> Iterator[Method]:
        """None: it solves an equation of its own, for systems without stochastic potentials."""
        yield from ()

    @property
    def _proposal(self) -> str:
        """What lies between the last O of a cycle and the next one."""
        last = self.splitting.rindex("O") + 1
        turned = self.splitting[last:] + self.splitting[:last]
        return turned.rstrip("O").lstrip("O")

    @property
    def order(self) -> int:
        """Order for deterministic systems."""
        if self.core is not None:
            return min(self.core.order, 2)
        return 2 if self.metropolis or self.splitting == self.splitting[::-1] else 1

    @property
    def weak_order(self) -> int:
        """Weak order."""
        return self.order

    @property
    def cost(self) -> str:
        """Unknowns of the equations that a step solves, before the projection's n + k."""
        drifts = f"{self.splitting.count('A') * self.inner} x (2n + k)" if self.core is None else self.core.cost
        return f"2 x ({drifts})" if self.metropolis else drifts

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What may become of a proposal."""
        return OUTCOMES if self.metropolis else ()

    @property
    def _baths(self) -> int:
        """Number of O's in a step."""
        return self.splitting.count("O") if self.core is None and not self.metropolis else 2

    def noises(self, system: System, n: int) -> int:
        """Wiener processes: n for each pair of O's, and one for the Metropolis test."""
        if (potentials := system.sizes(n)[1]) > 0:
            raise InputError(
                f"the system has {potentials} stochastic potentials, which would heat it beyond the temperature of "
                "Langevin; leave them out: hx.System(...) without noise="
            )
        if isinstance(self.friction, tuple) and len(self.friction) != n:
            raise InputError(f"friction holds {len(self.friction)} numbers for n = {n} coordinates")
        return n * ((self._baths + 1) // 2) + self.metropolis

    def check(self, system: System, start: State) -> None:
        """Raise unless L is quadratic in v with a positive mass matrix, and there is no other noise."""
        q = np.atleast_2d(np.asarray(start.q))[:_LOOKED_AT]
        self.noises(system, q.shape[1])
        rng = np.random.default_rng(0)
        v = rng.normal(size=(2, *q.shape)) * np.array([0.0, 3.0])[:, None, None]
        near = q + np.array([0.0, 0.1])[:, None, None] * rng.normal(size=(2, *q.shape))
        mass, least, rest = (np.asarray(x) for x in _inertia(system.form)(dict(system.parameters), q, v, near))
        if not np.abs(mass[1] - mass[0]).max() <= 1e-9 * np.abs(mass[0]).max():  # NaN where L is not defined for all v
            raise InputError(
                "L is not quadratic in v: its mass matrix L_vv depends on v; Langevin needs one that does not"
            )
        if not (smallest := least[0].min()) > 0:
            raise InputError(
                "the mass matrix L_vv is not positive definite, which Langevin needs: its smallest eigenvalue or pivot "
                f"is {smallest:.3g}"
            )
        if self.metropolis and np.nanmax(rest) > 1e-12 * np.nanmax(np.abs(mass)):
            raise InputError(
                f"L has a gyroscopic term (L_v(q, 0) = {np.nanmax(rest):.3g}), so that turning v round does not turn "
                "the motion round, as metropolis=True needs; leave the term out: the measure does not depend on it"
            )

    def concern(self, counts: dict[str, np.ndarray]) -> str | None:
        """Too many proposals that could not be solved, or not be undone."""
        return concern(counts) if self.metropolis else None

    def step(self, system: System, state: State, increment: Increment) -> tuple[State, Report]:
        """Advance one path by one step."""
        h, dW, H = increment
        passage = Passage(system, self.newton, state)
        outcome = jnp.zeros((), jnp.int32)
        if self.core is None and not self.metropolis:
            self._compose(passage, self.splitting, increment)
        else:
            self._bathe(passage, increment, 0)
            passage.settle()
            if self.metropolis:
                patience = (dW[-1] ** 2 + 12 * H[-1] ** 2) / (2 * h)  # half the sum of two squares of normal numbers
                outcome = accept_or_reject(passage, partial(self._propose, h), h, self.temperature, patience)
            else:
                self._propose(h, passage)
            self._bathe(passage, increment, 1)
        passage.settle()
        return passage.state, passage.report()._replace(outcome=outcome)

    def _compose(self, passage: Passage, letters: str, increment: Increment) -> None:
        """The parts of a string, one after another."""
        baths = 0
        for letter in letters:
            t = increment.h / letters.count(letter)
            if letter == "A":
                for _ in range(self.inner):
                    passage.drift(t / self.inner)
            elif letter == "B":
                passage.kick(t)
            else:
                self._bathe(passage, increment, baths)
                baths += 1

    def _bathe(self, passage: Passage, increment: Increment, number: int) -> None:
        """The O of that number."""
        h, n, baths = increment.h, passage.state.q.shape[0], self._baths
        block = slice(number // 2 * n, (number // 2 + 1) * n)
        dW, H = increment.dW[block], increment.H[block]
        if number == baths - 1 and number % 2 == 0:  # without a partner
            dW = dW / math.sqrt(baths)
        else:
            dW = math.sqrt(2 / baths) * (0.5 * dW + (math.sqrt(3) if number % 2 == 0 else -math.sqrt(3)) * H)
        if isinstance(self.friction, tuple):
            passage.bathe_midpoint(h / baths, jnp.asarray(self.friction, dW.dtype), self.temperature, dW)
        else:
            passage.bathe(h / baths, self.friction, self.temperature, dW)

    def _propose(self, h: Array, passage: Passage) -> None:
        """The motion between two O's, from a settled state to a settled one."""
        if self.core is not None:
            passage.step(self.core, h)
        else:
            self._compose(passage, self._proposal, Increment(h, h, h))  # there is no O in it
            passage.settle()


@remembered
def _inertia(form: System) -> Callable[..., tuple[Array, Array, Array]]:
    """Masses at q for several v, whether they are definite, and momenta of rest at places near by."""

    def inertia(values: dict[str, Array], q: Array, v: Array, near: Array) -> tuple[Array, Array, Array]:
        system = form.given(values)
        rest = jax.vmap(jax.vmap(system.momentum))(near, jnp.zeros_like(near))
        masses = jax.vmap(jax.vmap(partial(entries_and_least, system)), (None, 0))
        return *masses(q, v), jnp.abs(rest)

    return jax.jit(inertia, compiler_options=QUICKLY)
