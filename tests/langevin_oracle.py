"""An independent oracle for constrained Langevin dynamics: NumPy only, derived from the equations alone.

    L = v^T M(q) v / 2 + a(q).v - U(q),    g(q) = 0,    p = L_v = M v + a
    dq = v dt,    dp = L_q dt - friction (p - a) dt + sqrt(2 friction T) C dW + g'(q)^T dlambda,    C C^T = M

Nothing here is shared with the library. A system is the four functions M, a, U and g; they are differentiated by
complex steps, so they must accept complex arrays. Every implicit step is one dense nonlinear system for all of its
unknowns. Equations that are not solved leave NaN behind.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracle import difference


@dataclass(frozen=True)
class Mechanics:
    """A Lagrangian quadratic in v, with k constraints, and a start (q0, v0) on TS."""

    n: int
    k: int
    M: Callable  # q -> (n, n)
    a: Callable  # q -> (n,)
    U: Callable  # q -> scalar
    g: Callable  # q -> (k,)
    q0: np.ndarray
    v0: np.ndarray

    def G(self, q):
        return derivative(self.g, q)

    def dU(self, q):
        return derivative(self.U, q)

    def dK(self, q, v):
        """K_q for the kinetic part K = v^T M v / 2 + a.v of L."""
        return derivative(lambda x: v @ self.M(x) @ v / 2 + self.a(x) @ v, q)

    def momentum(self, q, v):
        return self.M(q) @ v + self.a(q)

    def velocity(self, q, p):
        return np.linalg.solve(self.M(q), p - self.a(q))

    def energy(self, q, p):
        return (p - self.a(q)) @ self.velocity(q, p) / 2 + self.U(q)


def derivative(f, x):
    """f'(x), the derivative index last, by complex steps: no cancellation, hence exact to round-off."""
    return np.stack([np.imag(f(x + 1e-30j * e)) / 1e-30 for e in np.eye(len(x))], axis=-1)


# ---- The systems -----------------------------------------------------------------------------------------------------


def _nothing(q):
    return np.zeros_like(q)


# Unit mass on the unit sphere.
PENDULUM = Mechanics(
    n=3, k=1,
    M=lambda q: np.eye(3),
    a=_nothing,
    U=lambda q: q[2],
    g=lambda q: np.array([q @ q - 1]),
    q0=np.array([1.0, 0.0, 0.0]),
    v0=np.array([0.0, 1.0, 0.5]),
)  # fmt: skip


def _ellipsoid(field):
    """Mass I + 0.3 u u^T and gyroscopic term of the given strength, on an ellipsoid."""
    axes = np.array([1.0, 1.3, 0.8])

    def M(q):
        u = np.array([np.sin(q[1]), np.cos(q[2]), q[0]])
        return np.eye(3) + 0.3 * np.outer(u, u)

    return Mechanics(
        n=3, k=1, M=M,
        a=lambda q: field * 0.5 * (1 + 0.2 * q[2]) * np.array([-q[1], q[0], 0.0]),
        U=lambda q: q[2] + 0.2 * q[0] ** 2,
        g=lambda q: np.array([np.sum((q / axes) ** 2) - 1]),
        q0=np.array([0.6, 0.64, 0.48]) * axes,
        v0=np.array([0.6, 0.0, -0.6]),
    )  # fmt: skip


def _rigid_body():
    """Heavy rigid body, q = R in row-major order, R^T R = I; R0 is a turn about z after one about x, and R0' = R0 W."""
    upper = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])
    turn_z = np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    turn_x = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, -0.6], [0.0, 0.6, 0.8]])
    W = np.array([[0.0, -1.0, -0.3], [1.0, 0.0, -0.5], [0.3, 0.5, 0.0]])
    return Mechanics(
        n=9, k=6,
        M=lambda q: np.diag([0.6, 0.9, 1.3] * 3),
        a=_nothing,
        U=lambda q: 0.2 * q[6] + 0.8 * q[8],
        g=lambda q: (q.reshape(3, 3).T @ q.reshape(3, 3) - np.eye(3))[upper],
        q0=(turn_z @ turn_x).ravel(),
        v0=(turn_z @ turn_x @ W).ravel(),
    )  # fmt: skip


def _chain():
    """Three unit masses on unit rods, hanging from the origin as a zigzag, at rest."""

    def rods(q):
        places = np.vstack([np.zeros(3), q.reshape(3, 3)])
        return np.sum(np.diff(places, axis=0) ** 2, axis=1) - 1

    return Mechanics(
        n=9, k=3, M=lambda q: np.eye(9), a=_nothing, U=lambda q: q[2] + q[5] + q[8], g=rods,
        q0=np.array([0.8, 0.0, -0.6, 0.8, 0.8, -1.2, 1.6, 0.8, -1.8]),
        v0=np.zeros(9),
    )  # fmt: skip


# No constraint: full mass matrix, magnetic field and quartic potential in the plane.
PLANE = Mechanics(
    n=2, k=0,
    M=lambda q: np.array([[2 + q[1] ** 2, 0.5 * q[0]], [0.5 * q[0], 1 + q[0] ** 2]]),
    a=lambda q: 0.4 * np.array([-q[1] * (1 + q[0]), q[0]]),
    U=lambda q: q[0] ** 4 / 4 + q[1] ** 2 / 2 + 0.3 * q[0] * q[1],
    g=lambda q: q[:0],
    q0=np.array([0.5, -0.3]),
    v0=np.array([0.2, 0.7]),
)  # fmt: skip

# On the crest of a wave: moving fast, a step along the normal leaps to where other normals meet the curve sooner.
WAVE = Mechanics(
    n=2, k=1,
    M=lambda q: np.eye(2),
    a=_nothing,
    U=lambda q: q[0] ** 2 / 2,
    g=lambda q: np.array([q[1] - 0.5 * np.cos(3 * q[0])]),
    q0=np.array([0.0, 0.5]),
    v0=np.array([3.0, 0.0]),
)  # fmt: skip

ELLIPSOID, EVEN_ELLIPSOID, RIGID_BODY, CHAIN = _ellipsoid(1.0), _ellipsoid(0.0), _rigid_body(), _chain()
MECHANICS = {
    "pendulum": PENDULUM,
    "ellipsoid": ELLIPSOID,
    "even_ellipsoid": EVEN_ELLIPSOID,
    "rigid_body": RIGID_BODY,
    "chain": CHAIN,
    "plane": PLANE,
    "wave": WAVE,
}


# ---- The letters -----------------------------------------------------------------------------------------------------


def newton(F, x):
    """Solve F(x) = 0 until the residual stops shrinking; NaN when it does not get below 1e-11."""
    J, r = difference(F, x), F(x)
    for _ in range(25):
        size = np.max(np.abs(r))
        if not size < 1e6:  # no solution is near, or NaN came in
            break
        if size > 1e-7:  # closer than that, the last matrix is good enough
            J = difference(F, x)
        y = x - np.linalg.lstsq(J, r)[0]  # where there is no solution, J may be singular
        s = F(y)
        if size < 1e-12 and not np.max(np.abs(s)) < size:
            break
        x, r = y, s
    return x if np.max(np.abs(r)) <= 1e-11 else np.full_like(x, np.nan)


def saddle(s, q, A, f):
    """The v with A v = f + G^T mu and G v = 0."""
    G = s.G(q)
    matrix = np.block([[A, -G.T], [G, np.zeros((s.k, s.k))]])
    return np.linalg.solve(matrix, np.concatenate([f, np.zeros(s.k)]))[: s.n]


def project(s, q, p):
    """p + G^T mu in the cotangent space at q."""
    return s.momentum(q, saddle(s, q, s.M(q), p - s.a(q)))


def rattle(s, q, p, t, potential=True):
    """The two-stage Lobatto IIIA-IIIB pair for V1, V2, both multipliers and the velocity at the end, all at once."""
    n, k = s.n, s.k
    a, b = np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([0.5, 0.5])

    def unpack(x):
        V, lam, v = x[: 2 * n].reshape(2, n), x[2 * n : 2 * (n + k)].reshape(2, k), x[2 * (n + k) :]
        Q = q + t * a @ V
        impulses = np.array([
            t * b[j] * (s.dK(Q[j], V[j]) - potential * s.dU(Q[j])) + s.G(Q[j]).T @ lam[j] for j in range(2)
        ])  # fmt: skip
        P = [p + sum((1 - a[j, i] / b[i]) * impulses[j] for j in range(2)) for i in range(2)]
        return V, v, Q, P, q + t * b @ V, p + impulses.sum(axis=0)

    def F(x):
        V, v, Q, P, q1, p1 = unpack(x)
        stages = [P[i] - s.momentum(Q[i], V[i]) for i in range(2)]
        return np.concatenate([*stages, s.g(q1), p1 - s.momentum(q1, v), s.G(q1) @ v])

    v = s.velocity(q, p)
    *_, q1, p1 = unpack(newton(F, np.concatenate([v, v, np.zeros(2 * k), v])))
    return q1, p1


def drift(s, q, p, t, inner):
    """A: RATTLE steps for the Lagrangian without its potential."""
    for _ in range(inner):
        q, p = rattle(s, q, p, t / inner, potential=False)
    return q, p


def kick(s, q, p, t):
    """B: the force of the potential."""
    return q, project(s, q, p - t * s.dU(q))


def bath(s, q, p, t, dW, friction, temperature):
    """O: exact for one friction, the midpoint rule for one per coordinate; dW has variance t."""
    M, a, C = s.M(q), s.a(q), np.linalg.cholesky(s.M(q))
    if np.ndim(friction) == 0:
        c = np.exp(-friction * t)
        return q, project(s, q, a + c * (p - a) + np.sqrt(temperature * (1 - c**2)) * C @ (dW / np.sqrt(t)))
    R = np.diag(np.sqrt(friction))
    D, v = R @ M @ R, s.velocity(q, p)
    return q, s.momentum(q, saddle(s, q, M + t / 2 * D, M @ v - t / 2 * D @ v + np.sqrt(2 * temperature) * R @ C @ dW))


# ---- The steps -------------------------------------------------------------------------------------------------------


def wiener(n, h, dW, H, number, t):
    """The Wiener increments of the O's of a step, `number` of them, each over a time t: two from one block of n."""
    w, H = (np.reshape(x, (-1, n)) for x in (dW, H))
    assert len(w) == len(H) == (number + 1) // 2
    parts = []
    for i in range(number):
        alone = i % 2 == 0 and i == number - 1
        sign = 1 - 2 * (i % 2)
        part = w[i // 2] if alone else np.sqrt(2) * (w[i // 2] / 2 + sign * np.sqrt(3) * H[i // 2])
        parts.append(np.sqrt(t / h) * part)
    return parts


def compose(s, q, p, h, letters, inner):
    """A string of A's and B's; those of one kind share h."""
    for letter in letters:
        t = h / letters.count(letter)
        q, p = drift(s, q, p, t, inner) if letter == "A" else kick(s, q, p, t)
    return q, p


def langevin(s, q, p, h, dW, H, friction, temperature, splitting="BAOAB", core=None, inner=1):
    """One step (q, p) -> (q1, p1); `core` is a map (s, q, p, h) -> (q, p) that stands between two O's."""
    letters = splitting if core is None else "O*O"
    times = {letter: h / letters.count(letter) for letter in set(letters)}
    noise = iter(wiener(s.n, h, dW, H, letters.count("O"), times["O"]))
    for letter in letters:
        t = times[letter]
        if letter == "O":
            q, p = bath(s, q, p, t, next(noise), friction, temperature)
        else:
            q, p = core(s, q, p, t) if letter == "*" else compose(s, q, p, t, letter, inner)
    return q, p


ACCEPTED, REJECTED, IRREVERSIBLE, UNSOLVED = range(4)


def core_of(splitting):
    """The letters between the O's of the string read as a cycle, from the last O on."""
    turned = next(
        splitting[i:] + splitting[:i]
        for i in range(len(splitting))
        if splitting[i] == "O" and splitting[i - 1] != "O"
    )  # fmt: skip
    letters = turned.lstrip("O")
    assert "O" not in letters
    assert letters == letters[::-1]
    return letters


def metropolis(s, q, p, h, dW, H, friction, temperature, splitting="BAOAB", core=None, inner=1):
    """One step (q, p) -> (q1, p1, outcome), the core between two O's subject to acceptance; a = 0."""
    first, second = wiener(s.n, h, dW[:-1], H[:-1], 2, h / 2)
    exponential = (dW[-1] ** 2 + 12 * H[-1] ** 2) / (2 * h)

    def propose(q, p):
        return compose(s, q, p, h, core_of(splitting), inner) if core is None else core(s, q, p, h)

    q, p = bath(s, q, p, h / 2, first, friction, temperature)
    with np.errstate(all="ignore"):  # where there is no solution, NaN is on its way
        q1, p1 = propose(q, p)
        q2, p2 = propose(q1, -p1) if np.isfinite(p1).all() else (q1, p1)
    if not np.isfinite(p1).all():
        outcome = UNSOLVED
    elif not max(np.abs(q2 - q).max(), np.abs(p2 + p).max()) < 1e-8:  # also if there is no way back at all
        outcome = IRREVERSIBLE
    elif s.energy(q1, p1) - s.energy(q, p) <= temperature * exponential:
        outcome = ACCEPTED
    else:
        outcome = REJECTED
    q, p = (q1, p1) if outcome == ACCEPTED else (q, -p)
    return *bath(s, q, p, h / 2, second, friction, temperature), outcome
