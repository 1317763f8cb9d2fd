r"""The equations with the multiplier eliminated, paper (cstochastichp2) and (cstochastichp3), for any SDE solver.

With $M = L_{vv}$, $G = g'$, $\mathbf P = G M^{-1} G^T$ and the projector $\mathbf B = G^T \mathbf P^{-1} G M^{-1}$,

$$ dq = v\,dt, \qquad dp = (I - \mathbf B)\Big(L_q\,dt + \sum_r \gamma_r' \circ dW_r\Big)
   - G^T \mathbf P^{-1} g''(v, v)\,dt + \mathbf B\,L_{qv} v\,dt. $$

Everything is a function of $(q, p)$; $v$ is the inverse Legendre transform.  The equations are Stratonovich's; where
$L$ is quadratic in $v$ the correction to Itô's form vanishes, otherwise not (docs/errata.md, E8).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from holonax.mechanics.system import System


class Terms(NamedTuple):
    r"""All terms at one point; `lam_drift` and `lam_diffusion` give $d\lambda$ = drift dt + diffusion dW."""

    v: Array
    P: Array
    B: Array
    lam_drift: Array
    lam_diffusion: Array
    drift: Array
    diffusion: Array


def terms(system: System, q: Array, p: Array, v: Array | None = None) -> Terms:
    """Evaluate every term at (q, p); pass `v` if it is known."""
    v = system.velocity(q, p) if v is None else v
    G = jax.jacfwd(system.g)(q)
    M_inverse_G = jnp.linalg.solve(system.mass(q, v), G.T)
    P = G @ M_inverse_G
    P_inverse_G_M_inverse = jnp.linalg.solve(P, M_inverse_G.T)  # M is symmetric
    B = G.T @ P_inverse_G_M_inverse

    force = system.force(q, v)
    noise = jax.jacrev(system.gamma)(q).T
    curvature = jax.jvp(lambda x: system.hidden(x, v), (q,), (v,))[1]
    transport = jax.jvp(lambda x: system.momentum(x, v), (q,), (v,))[1]

    lam_drift = -jnp.linalg.solve(P, curvature) - P_inverse_G_M_inverse @ (force - transport)
    lam_diffusion = -P_inverse_G_M_inverse @ noise
    return Terms(v, P, B, lam_drift, lam_diffusion, force + G.T @ lam_drift, noise + G.T @ lam_diffusion)


def projectors(system: System, q: Array, p: Array) -> tuple[Array, Array]:
    r"""$\mathbf P$ of shape (k, k) and $\mathbf B$ of shape (n, n)."""
    at = terms(system, q, p)
    return at.P, at.B


def multiplier(system: System, q: Array, p: Array) -> tuple[Array, Array]:
    r"""Drift (k,) and diffusion (k, m) of the multiplier, $d\lambda = \ldots dt + \ldots \circ dW$."""
    at = terms(system, q, p)
    return at.lam_drift, at.lam_diffusion


def drift(system: System, q: Array, p: Array) -> tuple[Array, Array]:
    """Drift of q and of p (Stratonovich)."""
    at = terms(system, q, p)
    return at.v, at.drift


def diffusion(system: System, q: Array, p: Array) -> Array:
    r"""Diffusion of p, $(I - \mathbf B)\gamma_r'$ in column r: shape (n, m).  q has none."""
    return terms(system, q, p).diffusion


def ito_correction(system: System, q: Array, p: Array) -> Array:
    r"""What Itô's form adds to the drift of p: $\frac12 \sum_r (\partial_p \sigma_r) \sigma_r$, $\sigma$ the diffusion.

    Zero for every $L$ that is quadratic in $v$; in general it is
    $\frac12 \sum_r \mathbf B L_{vvv}(u_r, u_r)$ with $u_r = M^{-1} \sigma_r$.
    """

    sigma = diffusion(system, q, p)
    if sigma.shape[1] == 0:
        return jnp.zeros_like(p)

    def along(column: Array, r: Array) -> Array:
        return jax.jvp(lambda x: diffusion(system, q, x)[:, r], (p,), (column,))[1]

    return 0.5 * jnp.sum(jax.vmap(along, in_axes=(1, 0))(sigma, jnp.arange(sigma.shape[1])), axis=0)
