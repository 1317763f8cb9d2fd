"""An independent oracle for the integrators: NumPy only, derived from the equations of the paper alone.

Nothing here is shared with the library. Derivatives of the systems are written by hand, every step is one dense
nonlinear system solved by Newton's method, and no unknown is eliminated for speed. Equation names in the docstrings
are the paper's labels; E2 and E3 are the errata of MATHS.md. Constraints (k >= 1) are assumed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre


@dataclass(frozen=True)
class Oracle:
    """A constrained stochastic mechanical system, with a start (q0, v0) on TS.

    The callables must also accept complex arrays: `EulerMaruyama` differentiates L_v and G by complex steps.
    """

    n: int
    k: int
    m: int
    L: Callable  # (q, v) -> scalar
    L_q: Callable  # (q, v) -> (n,)
    L_v: Callable  # (q, v) -> (n,)
    g: Callable  # q -> (k,)
    G: Callable  # q -> (k, n), the Jacobian g'
    gamma: Callable  # q -> (m,), here only so that `check` can test dgamma
    dgamma: Callable  # q -> (m, n), rows gamma_r'
    q0: np.ndarray
    v0: np.ndarray

    @property
    def p0(self):
        """The start's momentum."""
        return self.L_v(self.q0, self.v0)


# ---- The systems -----------------------------------------------------------------------------------------------------


# The spherical pendulum of the paper's example.
PENDULUM = Oracle(
    n=3, k=1, m=3,
    L=lambda q, v: v @ v / 2 - q[2],
    L_q=lambda q, v: np.array([0.0, 0.0, -1.0]),
    L_v=lambda q, v: v,
    g=lambda q: np.array([q @ q - 1]),
    G=lambda q: 2 * q[None, :],
    gamma=np.sin,
    dgamma=lambda q: np.diag(np.cos(q)),
    q0=np.array([1.0, 0.0, 0.0]),
    v0=np.array([0.0, 1.0, 0.5]),
)  # fmt: skip

# Planar double pendulum, q = (x1, y1, x2, y2), unit masses and unit rods.
DOUBLE_PENDULUM = Oracle(
    n=4, k=2, m=2,
    L=lambda q, v: v @ v / 2 - q[1] - q[3],
    L_q=lambda q, v: np.array([0.0, -1.0, 0.0, -1.0]),
    L_v=lambda q, v: v,
    g=lambda q: np.array([q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1]),
    G=lambda q: 2 * np.array([[q[0], q[1], 0, 0], [q[0] - q[2], q[1] - q[3], q[2] - q[0], q[3] - q[1]]]),
    gamma=lambda q: 0.5 * np.array([np.sin(q[0]), np.sin(q[2] + q[3])]),
    dgamma=lambda q: 0.5 * np.array([[np.cos(q[0]), 0, 0, 0], [0, 0, np.cos(q[2] + q[3]), np.cos(q[2] + q[3])]]),
    q0=np.array([1.0, 0.0, 1.0, -1.0]),
    v0=np.array([0.0, 0.5, 0.3, 0.5]),
)  # fmt: skip


def _ellipsoid():
    """A non-separable L, with position-dependent mass M = I + 0.3 u u^T and gyroscopic term A.v, on an ellipsoid."""
    axes = np.array([1.0, 1.3, 0.8])

    def u(q):
        return np.array([np.sin(q[1]), np.cos(q[2]), q[0]])

    def A(q):
        return 0.5 * (1 + 0.2 * q[2]) * np.array([-q[1], q[0], 0.0])

    def L(q, v):
        return v @ v / 2 + 0.15 * (u(q) @ v) ** 2 + A(q) @ v - q[2] - 0.2 * q[0] ** 2

    def L_q(q, v):
        x, y, z = q
        s = 1 + 0.2 * z
        dmass = 0.3 * (u(q) @ v) * np.array([v[2], np.cos(y) * v[0], -np.sin(z) * v[1]])
        dgyro = np.array([0.5 * s * v[1], -0.5 * s * v[0], 0.1 * (x * v[1] - y * v[0])])
        return dmass + dgyro - np.array([0.4 * x, 0.0, 1.0])

    return Oracle(
        n=3, k=1, m=2, L=L, L_q=L_q,
        L_v=lambda q, v: v + 0.3 * (u(q) @ v) * u(q) + A(q),
        g=lambda q: np.array([np.sum((q / axes) ** 2) - 1]),
        G=lambda q: (2 * q / axes**2)[None, :],
        gamma=lambda q: 0.5 * np.array([np.sin(q[0]), q[1] * q[2]]),
        dgamma=lambda q: 0.5 * np.array([[np.cos(q[0]), 0.0, 0.0], [0.0, q[2], q[1]]]),
        q0=np.array([0.6, 0.64, 0.48]) * axes,
        v0=np.array([0.6, 0.0, -0.6]),
    )  # fmt: skip


def _rigid_body():
    """Heavy rigid body, q = R in row-major order, the columns c_j of R orthonormal."""
    d = np.array([0.6, 0.9, 1.3])
    e = np.eye(3)
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
    target = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    force = np.zeros(9)
    force[6], force[8] = -0.2, -0.8  # R[2, 0] and R[2, 2]

    def g(q):
        R = q.reshape(3, 3)
        return np.array([R[:, i] @ R[:, j] for i, j in pairs]) - target

    def G(q):
        R = q.reshape(3, 3)
        return np.array([(np.outer(R[:, j], e[i]) + np.outer(R[:, i], e[j])).ravel() for i, j in pairs])

    Rz = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    Rx = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, -0.6], [0.0, 0.6, 0.8]])
    hat = np.array([[0.0, -1.0, -0.3], [1.0, 0.0, -0.5], [0.3, 0.5, 0.0]])  # of Omega = (0.5, -0.3, 1)
    return Oracle(
        n=9, k=6, m=3, g=g, G=G,
        L=lambda q, v: np.sum(np.tile(d, 3) * v**2) / 2 + force @ q,
        L_q=lambda q, v: force,
        L_v=lambda q, v: np.tile(d, 3) * v,
        gamma=lambda q: 0.4 * np.sin(q[6:]),
        dgamma=lambda q: np.hstack([np.zeros((3, 6)), 0.4 * np.diag(np.cos(q[6:]))]),
        q0=(Rz @ Rx).ravel(),
        v0=(Rz @ Rx @ hat).ravel(),
    )  # fmt: skip


ELLIPSOID, RIGID_BODY = _ellipsoid(), _rigid_body()
ORACLES = {"pendulum": PENDULUM, "ellipsoid": ELLIPSOID, "double_pendulum": DOUBLE_PENDULUM, "rigid_body": RIGID_BODY}


# ---- Numerics --------------------------------------------------------------------------------------------------------


def difference(f, x, eps=1e-5):
    """Jacobian of f at x by central differences; the derivative index comes last."""
    x = np.asarray(x, float)
    return np.stack([(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(x.size)], axis=-1)


def directional(f, x, w):
    """Directional derivative f'(x).w by a complex step: no cancellation, hence exact to round-off."""
    return np.imag(f(x + 1e-30j * w)) / 1e-30


def newton(F, x):
    """Solve F(x) = 0: iterate until the residual stops shrinking; raise when it stays above 1e-11."""
    r = F(x)
    for _ in range(50):
        y = x - np.linalg.solve(difference(F, x), r)
        s = F(y)
        shrinks = np.max(np.abs(s)) < np.max(np.abs(r))
        if not shrinks and np.max(np.abs(r)) < 1e-12:
            break
        x, r = y, s
    if not np.max(np.abs(r)) <= 1e-11:  # written so that NaN raises as well
        raise RuntimeError(f"Newton's method stopped at a residual of {np.max(np.abs(r)):.1e}")
    return x


def check(oracle, tol=1e-8, seed=0):
    """Assert that the hand-written derivatives agree with central differences, and that (q0, v0) lies on TS."""
    o, rng, worst = oracle, np.random.default_rng(seed), 0.0
    for scale in (0.0, 0.3, 1.0):  # the derivatives must hold off S too: the solver goes there
        q, v = o.q0 + scale * rng.normal(size=o.n), o.v0 + scale * rng.normal(size=o.n)
        for hand, numeric, shape in [
            (o.L_q(q, v), difference(lambda x, v=v: o.L(x, v), q), (o.n,)),
            (o.L_v(q, v), difference(lambda x, q=q: o.L(q, x), v), (o.n,)),
            (o.G(q), difference(o.g, q), (o.k, o.n)),
            (o.dgamma(q), difference(o.gamma, q), (o.m, o.n)),
        ]:
            assert hand.shape == numeric.shape == shape, (hand.shape, numeric.shape, shape)
            worst = max(worst, np.max(np.abs(hand - numeric)))
    assert worst < tol, worst
    assert np.max(np.abs(o.g(o.q0))) < 1e-14
    assert np.max(np.abs(o.G(o.q0) @ o.v0)) < 1e-14
    return worst


# ---- The methods -----------------------------------------------------------------------------------------------------


def velocity(oracle, q, p):
    """Inverse Legendre transform: v such that p = L_v(q, v)."""
    return newton(lambda v: oracle.L_v(q, v) - p, np.zeros(oracle.n))


def project(oracle, q, p):
    """(projectionstep): p + g'(q)^T mu, with mu such that g'(q) v = 0."""
    n, G = oracle.n, oracle.G(q)

    def F(x):
        v, mu = x[:n], x[n:]
        return np.concatenate([oracle.L_v(q, v) - p - G.T @ mu, G @ v])

    return oracle.L_v(q, newton(F, np.concatenate([velocity(oracle, q, p), np.zeros(oracle.k)]))[:n])


def lobatto(s):
    """Lobatto IIIA tableau (a, b) with s stages: a_ij is the integral of the j-th Lagrange polynomial over [0, c_i]."""
    P = np.eye(s)[s - 1]  # coefficients of the Legendre polynomial of degree s - 1
    inner = np.sort(legendre.legroots(legendre.legder(P)).real)  # complex with some versions of NumPy
    for _ in range(2):  # polish the eigenvalue solver's roots
        inner = inner - legendre.legval(inner, legendre.legder(P)) / legendre.legval(inner, legendre.legder(P, 2))
    x = np.concatenate([[-1.0], inner, [1.0]])
    lagrange = np.linalg.inv(legendre.legvander(x, s - 1))  # column j: Legendre coefficients of the j-th polynomial
    a = 0.5 * legendre.legval(x, legendre.legint(lagrange, lbnd=-1)).T
    a[0] = 0.0
    return a, a[-1].copy()


def vprk(oracle, q, p, h, dW, H, a, b, nu, kappa):
    """(csvprk) for V^1..V^s, all s multipliers and v_{k+1} at once, closed by the hidden constraint."""
    n, k, s = oracle.n, oracle.k, len(b)
    w = np.outer(nu, dW) + np.outer(kappa, H)
    ahat = 1 - (a / b).T  # ahat[i, j] = 1 - a_ji / b_i: what stage i feels of the impulse of stage j

    def unpack(x):
        V, lam, v1 = np.split(x, [s * n, s * (n + k)])  # lam^j = h Lambda^j, the impulse
        V, lam = V.reshape(s, n), lam.reshape(s, k)
        Q = q + h * a @ V
        force = np.array([
            b[j] * (h * oracle.L_q(Q[j], V[j]) + oracle.G(Q[j]).T @ lam[j]) + w[j] @ oracle.dgamma(Q[j])
            for j in range(s)
        ])  # fmt: skip
        return V, v1, Q, q + h * b @ V, p + ahat @ force, p + force.sum(axis=0)

    def F(x):
        V, v1, Q, q1, P, p1 = unpack(x)
        stages = [P[i] - oracle.L_v(Q[i], V[i]) for i in range(s)]
        constraints = [oracle.g(Q[i]) for i in range(1, s)]  # Q^1 = q_k lies on S already
        return np.concatenate([*stages, *constraints, p1 - oracle.L_v(q1, v1), oracle.G(q1) @ v1])

    v = velocity(oracle, q, p)
    _, _, _, q1, _, p1 = unpack(newton(F, np.concatenate([np.tile(v, s), np.zeros(s * k), v])))
    return q1, p1


def euler(oracle, q, p, h, dW, form):
    """Constrained variational Euler methods with noise: one stage (V, lam), then the projection step.

    A: (variationaleulerA), noise at q_k. B: its adjoint, erratum E2, noise at q_{k+1}.
    Printed: (veulerqupdate)-(veulerlt), force at (q_k, v_k) and Legendre transform at (q_{k+1}, V).
    """
    n, o = oracle.n, oracle
    v = velocity(o, q, p)

    def stage(x):
        """End position, the momentum that the Legendre transform must match, and where it is taken."""
        V, lam = x[:n], x[n:]
        q1, impulse = q + h * V, o.G(q).T @ lam
        if form == "A":
            return q1, p + h * o.L_q(q, V) + dW @ o.dgamma(q) + impulse, q
        if form == "Printed":
            return q1, p + h * o.L_q(q, v) + dW @ o.dgamma(q) + impulse, q1
        return q1, p + impulse, q1

    def F(x):
        q1, P, at = stage(x)
        return np.concatenate([P - o.L_v(at, x[:n]), o.g(q1)])

    x = newton(F, np.concatenate([v, np.zeros(o.k)]))
    q1, phat, _ = stage(x)
    if form == "B":
        phat = phat + h * o.L_q(q1, x[:n]) + dW @ o.dgamma(q1)
    return q1, project(o, q1, phat)


def euler_maruyama(oracle, q, p, h, dW):
    """(firstorder): explicit, with the multiplier eliminated; it leaves S."""
    o = oracle
    v, G = velocity(o, q, p), o.G(q)
    L_vv = np.stack([directional(lambda x: o.L_v(q, x), v, e) for e in np.eye(o.n)], axis=-1)
    L_qv_v = directional(lambda x: o.L_v(x, v), q, v)
    g_qq_vv = directional(o.G, q, v) @ v
    Minv = np.linalg.inv(L_vv)
    GtPinv = G.T @ np.linalg.inv(G @ Minv @ G.T)
    B = GtPinv @ G @ Minv
    push = h * o.L_q(q, v) + dW @ o.dgamma(q)
    return q + h * v, p + (push - B @ push) - h * GtPinv @ g_qq_vv + h * B @ L_qv_v


def kicked(oracle, q, p, h, kicks, times):
    """Kicks w_r gamma_r'(q) at the given fractions of the step, each projected, between noiseless RATTLE steps."""
    a, b = lobatto(2)
    none = np.zeros(oracle.m)
    t = 0.0
    for w, c in [*zip(kicks, times, strict=True), (None, 1.0)]:
        if c > t:
            q, p = vprk(oracle, q, p, (c - t) * h, none, none, a, b, b, 0 * b)
        if w is not None:
            p = project(oracle, q, p + w @ oracle.dgamma(q))
        t = c
    return q, p


def step(method, oracle, q, p, h, dW, H):
    """One step (q, p) -> (q1, p1) of the named method; dW and H have shape (m,)."""
    q, p, dW, H = (np.asarray(x, float) for x in (q, p, dW, H))
    if method in ("EulerA", "EulerB", "EulerPrinted"):
        return euler(oracle, q, p, h, dW, method.removeprefix("Euler"))
    if method == "EulerMaruyama":
        return euler_maruyama(oracle, q, p, h, dW)
    if method == "Lobatto32":  # erratum E3
        x = 0.5 - np.sqrt(2) / 3
        return vprk(oracle, q, p, h, dW, H, *lobatto(3), np.array([x, 1 - 2 * x, x]), np.array([1.0, 0.0, -1.0]))
    if method in ("Rattle", "Lobatto3", "Lobatto4", "Lobatto5", "Lobatto6"):
        a, b = lobatto(2 if method == "Rattle" else int(method[-1]))
        return vprk(oracle, q, p, h, dW, H, a, b, b, 0 * b)
    if method == "Kicked:symmetric":
        x = (1 - np.sqrt(2 / 3)) / 2
        return kicked(oracle, q, p, h, [x * dW + H, (1 - 2 * x) * dW, x * dW - H], [0.0, 0.5, 1.0])
    if method == "Kicked:milstein-tretyakov":
        J = dW / 2 + H
        return kicked(oracle, q, p, h, [(3 * J - dW) / 2, 3 * (dW - J) / 2], [0.0, 2 / 3])
    if method == "Kicked:midpoint":
        return kicked(oracle, q, p, h, [dW], [0.5])
    raise ValueError(f"unknown method {method!r}")
