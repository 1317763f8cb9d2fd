r"""Free energies by thermodynamic integration: the mean force on a coordinate that is held fixed.

Let the constraints be $g = (g_{phys}, \xi - z)$, the last one holding the coordinate $\xi(q)$ at $z$.  The free energy
of the coordinate is $A(z) = -T \log \rho(z)$, $\rho$ the density of $\xi$ where $\xi$ is *not* held, while the other
constraints still are.  A constrained run differs from that in two ways: it has no momentum along $\xi$, and it weighs
each point of the level set alike, although the level sets are not equally far apart everywhere.  With
$P = g' M^{-1} g'^T$ the mass of the coordinate is $1/Z = (P^{-1})_{\xi\xi}$, and

$$ A(z) = A_{rigid}(z) - T \log \langle Z^{-1/2} \rangle_z, \qquad A_{rigid}'(z) = \langle \lambda \rangle_z, $$

where $\lambda$ is the multiplier of the constraint, $dp = L_q dt + \ldots + g'^T \lambda\,dt$.  Differentiating the
average along $b = M^{-1} g'^T P^{-1} e_\xi$, the direction in which $\xi$ grows and nothing else does,

$$ A'(z) = \frac{\langle Z^{-1/2} (\lambda + \frac T2 b \cdot \nabla \log Z) \rangle_z}{\langle Z^{-1/2} \rangle_z}. $$

The second term is the metric term (Sprik and Ciccotti 1998; den Otter and Briels 1998); $\lambda$ itself holds the
centrifugal force, so that momenta need no further care.

All of this follows from one linear system, as sparse as that of a step: with $y = P^{-1} e_\xi$,

$$ M b = g'^T y, \qquad g' b = e_\xi, \qquad 1/Z = y_\xi, \qquad
   \lambda = -y \cdot g''(v, v) - b \cdot (L_q - L_{vq} v), $$

and, since $\partial_b P^{-1} = -P^{-1} (\partial_b P) P^{-1}$, the slope of the weight is

$$ -\tfrac12\, b \cdot \nabla \log Z = -\frac{y \cdot g''(b, b) - \frac12\, b \cdot (\partial_b M) b}{y_\xi}. $$
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError, whole_number
from holonax.inputs.checks import instance, real_number
from holonax.inputs.made import Recipe
from holonax.mechanics.system import System
from holonax.numerics.newton import Newton, Status
from holonax.observables import Mean
from holonax.observables.base import Over
from holonax.observables.view import View


@final
@dataclass(frozen=True)
class MeanForceResult:
    """The derivative of the free energy with respect to the coordinate that is held fixed.

    Attributes:
        force: $A'(z)$.
        stderr: its standard error.
        rigid: the mean of the multiplier alone, $A_{rigid}'(z)$.
        rigid_stderr: its standard error.
        count: how many values they are the means of.
    """

    force: np.ndarray
    stderr: np.ndarray
    rigid: np.ndarray
    rigid_stderr: np.ndarray
    count: np.ndarray


@final
@dataclass(frozen=True)
class MeanForce(Mean):
    r"""The mean force on a constrained coordinate, $A'(z)$ of this module, with the metric term.

    Args:
        system: the system, in which $\xi(q) - z$ is one of the constraints.
        temperature: that of the run.
        which: the number of that constraint; the last one by default.

    The other options are those of `hx.Mean`; here, it is taken over all paths and times unless said otherwise.

    A particle in three dimensions without a potential: at a distance $r$ there is $4\pi r^2$ of space, so that
    $A(r) = -2 T \log r$.

    >>> import holonax as hx, jax.numpy as jnp
    >>> system = hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: jnp.sqrt(q @ q) - 2.0, n=3)
    >>> start = hx.start(system, q=[2.0, 0.0, 0.0])
    >>> run = hx.simulate(system, hx.Langevin(1.0, 1.0), start, t1=50.0, h=0.1, paths=100, save_every=None,
    ...                   observe={"force": hx.MeanForce(system, temperature=1.0, after=100)})
    >>> found = run.observed["force"]
    >>> bool(abs(found.force + 2 * 1.0 / 2.0) < 5 * found.stderr)
    True
    """

    fn: Callable[..., Any] = field(init=False, repr=False, compare=False)
    system: System
    temperature: float
    which: int = -1
    over: Over = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        instance("system", self.system, System, "pass the system that is simulated")
        if real_number("temperature", self.temperature) < 0:
            raise InputError(f"temperature = {self.temperature}: must be a number >= 0")
        whole_number("which", self.which)
        if self.system.redundant != "refuse":
            raise InputError(
                f"redundant = {self.system.redundant!r}: the force on one of several constraints that depend on each "
                "other is not determined; pass a system of independent constraints"
            )
        object.__setattr__(self, "fn", self._terms)
        super().__post_init__()

    def about(self, system: System) -> MeanForce:
        """The same; of the simulated system, with the run's parameters."""
        return replace(self, system=system.form) if self.system.parameters and self.system == system else self

    def _terms(self, q: Array, p: Array, **values: Array) -> Array:
        r"""$w f$, $w$, their sum, which tells their covariance, and $\lambda$; with $w = Z^{-1/2}$."""
        unknown = any(isinstance(x, (jax.ShapeDtypeStruct, Recipe)) for x in self.system.parameters.values())
        system = self.system.given(values) if unknown else self.system
        k, _ = system.sizes(q.shape[0])
        if not -k <= self.which < k:
            raise InputError(f"which = {self.which}: the system has {k} constraints, numbered from 0")

        v = system.velocity(q, p)
        unit = jnp.zeros(k, q.dtype).at[self.which].set(1.0)

        def momenta(q: Array, b: Array) -> Array:  # M b
            return jax.jvp(lambda v: system.momentum(q, v), (v,), (b,))[1]

        def residual(b: Array, y: Array) -> tuple[Array, Array]:
            return momenta(q, b) - system.reaction(q, y), system.hidden(q, b) - unit

        (b, y), solved = Newton()(residual, (jnp.zeros_like(q), unit))
        inverse = jnp.where(solved.status == Status.CONVERGED, y[self.which], jnp.nan)
        force, curvature, transport = system.force(q, v), _along(system.hidden, q, v), _along(system.momentum, q, v)
        lam = -(y @ curvature + b @ (force - transport))
        slope = -(y @ _along(system.hidden, q, b) - 0.5 * b @ _along(momenta, q, b)) / inverse
        w = jnp.sqrt(inverse)
        weighed = w * (lam - self.temperature * slope)
        return jnp.stack([weighed, w, weighed + w, lam])

    def result(self, view: View, summary: Any) -> MeanForceResult:  # type: ignore[override]
        """A quotient of two means, and its error to first order."""
        means = super().result(view, summary)
        force, weight, _, rigid = np.moveaxis(means.mean, -1, 0)
        known = np.isfinite(means.stderr[..., 0])
        squares = np.where(known[..., None], means.stderr, 0) ** 2
        square_of_force, square_of_weight, square_of_sum, _ = np.moveaxis(squares, -1, 0)
        covariance = 0.5 * (square_of_sum - square_of_force - square_of_weight)
        ratio = force / weight
        variance = square_of_force - 2 * ratio * covariance + ratio**2 * square_of_weight
        stderr = np.where(known, np.sqrt(np.maximum(variance, 0)) / weight, np.inf)[()]
        return MeanForceResult(ratio, stderr, rigid, means.stderr[..., 3], means.count)


def _along(function: Callable[[Array, Array], Array], q: Array, v: Array) -> Array:
    """The derivative of `function(q, v)` where q moves with velocity v, and v stays."""
    return jax.jvp(lambda x: function(x, v), (q,), (v,))[1]
