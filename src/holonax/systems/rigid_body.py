"""A heavy rigid body as a rotation matrix, with noise torques."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry
from holonax.viewer.drawing import Drawing, Frame

WEIGHTS = (0.6, 0.9, 1.3)


def rigid_body(sigma: float = 0.4) -> Entry:
    r"""$q$ is a rotation matrix $R$, row by row: $n = 9$, $k = 6$ ($R^T R = I$).

    $L = \frac12 \sum_j d_j |\dot R e_j|^2 - (0.8 R_{33} + 0.2 R_{31})$: moments of inertia $d_2 + d_3$, $d_1 + d_3$,
    $d_1 + d_2$, centre of mass off the axes.  The noise torques come from $\gamma_i = \sigma \sin R_{3i}$, functions of
    the vertical as the body sees it, which no rotation about the vertical changes: $J_z$ is conserved on every path.
    """
    weights = jnp.asarray(WEIGHTS)
    upper = np.triu_indices(3, 1)

    def lagrangian(q: Array, v: Array) -> Array:
        R, R_dot = q.reshape(3, 3), v.reshape(3, 3)
        return 0.5 * jnp.sum(weights * R_dot**2) - 0.8 * R[2, 2] - 0.2 * R[2, 0]

    def orthogonality(q: Array) -> Array:
        gram = q.reshape(3, 3).T @ q.reshape(3, 3)
        return jnp.concatenate([jnp.diagonal(gram) - 1.0, gram[upper]])

    box = Frame(tuple(range(9)), size=(0.9, 0.6, 0.35))
    drawing = Drawing(points=((2, 5, 8),), rods=(), frames=(box,))  # the point is the end of the third axis
    system = System(lagrangian, orthogonality, lambda q: sigma * jnp.sin(q.reshape(3, 3)[2]), 9, drawing=drawing)
    about_z = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, -0.6], [0.0, 0.6, 0.8]])
    R = about_z @ about_x
    spin = np.cross(np.eye(3), [0.5, -0.3, 1.0])  # the matrix of x -> omega x x
    return Entry("rigid_body", system, start(system, R.ravel(), (R @ spin).ravel()), {"J_z": vertical_momentum})


def vertical_momentum(q: Array, p: Array) -> Array:
    r"""Angular momentum about the vertical, $\sum_j (R e_j \times P e_j)_z$."""
    R, P = q.reshape(3, 3), p.reshape(3, 3)
    return R[0] @ P[1] - R[1] @ P[0]
