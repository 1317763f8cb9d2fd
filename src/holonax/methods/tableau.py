r"""Butcher tableaux with noise weights, and the algebra that says what they can do.

A stage $i$ carries the weight $w_{ir} = \nu_i \Delta W_r + \kappa_i H_r$ of the stochastic potential $\gamma_r$.  All
questions (is it symplectic, does it keep the constraints, of which order is it) are answered from the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from holonax.errors import TableauError, shown

_SAME = 1e-12
"""Two coefficients closer than this are equal: entries are rounded once, to float64."""


def _frozen(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.array([[float(x) for x in row] if np.ndim(row) else float(row) for row in values])
    except (TypeError, ValueError) as error:
        raise TableauError(f"{name} = {shown(values)} is not an array of numbers: {error}") from None
    if array.shape != shape:
        raise TableauError(f"{name} has shape {array.shape}; {shape} is needed, for b has {shape[0]} weights")
    if not np.isfinite(array).all():
        raise TableauError(f"{name} = {array.tolist()} holds a number that is not finite")
    array.setflags(write=False)
    return array


@final
@dataclass(frozen=True, eq=False)
class Tableau:
    r"""Coefficients `a`, `b` of an s-stage Runge-Kutta method with noise weights `nu` (default `b`) and `kappa` (0).

    Entries may be integers, floats, `Fraction` or `Decimal`; they are rounded to float64 once.

    >>> import holonax as hx
    >>> trapezoidal = hx.Tableau(a=[[0, 0], [0.5, 0.5]], b=[0.5, 0.5])
    >>> trapezoidal.is_stiffly_closed(), trapezoidal.order, trapezoidal.strong_order
    (True, 2, 1.0)
    """

    a: Any
    b: Any
    nu: Any = None
    kappa: Any = None

    def __post_init__(self) -> None:
        try:
            s = len(self.b)
        except TypeError:
            raise TableauError(
                f"b = {shown(self.b)} is not a list of weights; pass numbers such as [0.5, 0.5]"
            ) from None
        if s == 0:
            raise TableauError("b is empty; a tableau has at least 1 stage")
        given = {
            "a": (self.a, (s, s)),
            "b": (self.b, (s,)),
            "nu": (self.b if self.nu is None else self.nu, (s,)),
            "kappa": ([0.0] * s if self.kappa is None else self.kappa, (s,)),
        }
        for name, (values, shape) in given.items():
            object.__setattr__(self, name, _frozen(name, values, shape))

    def __repr__(self) -> str:
        return f"Tableau(stages={self.stages}, nu={self.nu.round(4).tolist()}, kappa={self.kappa.round(4).tolist()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tableau) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, ...]:
        return tuple(x.tobytes() for x in (self.a, self.b, self.nu, self.kappa))

    # The numbers that follow from a and b.

    @property
    def stages(self) -> int:
        """Number of stages s."""
        return len(self.b)

    @property
    def c(self) -> np.ndarray:
        r"""Nodes $c_i = \sum_j a_{ij}$."""
        return self.a.sum(axis=1)

    @property
    def transfer(self) -> np.ndarray:
        r"""$1 - a_{ji}/b_i$: the share of the impulse at stage j that has reached the momentum of stage i."""
        if not np.all(self.b):
            raise TableauError(f"b_{1 + int(np.argmin(np.abs(self.b)))} = 0: the conjugate matrix divides by every b_i")
        return 1.0 - self.a.T / self.b[:, None]

    @property
    def ahat(self) -> np.ndarray:
        r"""Symplectic conjugate of `a`: $\hat a_{ij} = b_j - b_j a_{ji} / b_i$."""
        return self.transfer * self.b

    def conjugate(self) -> Tableau:
        """The tableau of the momenta, with `ahat` for `a`; taking it twice gives the tableau back."""
        return Tableau(self.ahat, self.b, self.nu, self.kappa)

    # Jay's condition.

    def closure(self) -> np.ndarray:
        r"""The block $(\sum_k a_{ik} \hat a_{kj})$, rows $i = 2..s$, columns $j = 1..s-1$, of Jay (1996).

        Constraints at the stages 2..s must determine the multipliers of the stages 1..s-1, so the block must be
        invertible.  The paper's Condition (RKcoefficients) prints columns 2..s; the last of these is zero for every
        stiffly accurate tableau (docs/errata.md, E1).
        """
        return (self.a @ self.ahat)[1:, :-1]

    def refusal(self) -> str | None:
        """Why no constrained integrator can be built on this tableau, or None if one can."""
        if self.stages < 2:
            return "it has 1 stage; the constraint at the end of a step needs a stage of its own, so at least 2"
        if not np.all(self.b):
            return f"b_{1 + int(np.argmin(np.abs(self.b)))} = 0; every weight must differ from 0"
        if np.abs(self.a[0]).max() > _SAME:
            return f"its first row {self.a[0].tolist()} is not zero; stage 1 must be the beginning of the step"
        if np.abs(self.a[-1] - self.b).max() > _SAME:
            return (
                f"its last row {self.a[-1].tolist()} is not b = {self.b.tolist()}; stage s must be the end of the step"
            )
        smallest = np.linalg.svd(self.closure(), compute_uv=False)[-1]
        if smallest < _SAME:
            return (
                f"the block (a ahat), rows 2..s, columns 1..s-1, is singular (smallest singular value {smallest:.1e}); "
                "the constraints do not determine the multipliers"
            )
        return None

    def is_stiffly_closed(self) -> bool:
        """Jay's condition as a whole: first row 0, last row b, no b_i = 0, invertible block (`refusal` says which)."""
        return self.refusal() is None

    def is_symmetric(self) -> bool:
        """Whether a step backwards undoes a step forwards, noise included (kappa must be odd, the rest even)."""
        a, b, nu, kappa = self.a[::-1, ::-1], self.b[::-1], self.nu[::-1], self.kappa[::-1]
        odd = (a + self.a - self.b, b - self.b, nu - self.nu, kappa + self.kappa)
        return all(np.abs(x).max() < _SAME for x in odd)

    # Orders.

    @property
    def order(self) -> int:
        r"""Deterministic order guaranteed by Butcher's simplifying assumptions.

        $\min(p, 2\eta + 2, 2\zeta + 2, \eta + \zeta + 1)$, where the conjugate has $\eta$ and $\zeta$ exchanged, and
        $B(p)$: $\sum b_i c_i^{k-1} = 1/k$ for $k \le p$;  $C(\eta)$: $\sum_j a_{ij} c_j^{k-1} = c_i^k/k$;
        $D(\zeta)$: $\sum_i b_i c_i^{k-1} a_{ij} = b_j (1 - c_j^k)/k$.
        """
        b, c, a = self.b, self.c, self.a
        p = _holds(lambda k: b @ c ** (k - 1) - 1 / k)
        eta = _holds(lambda k: a @ c ** (k - 1) - c**k / k)
        zeta = _holds(lambda k: (b * c ** (k - 1)) @ a - b * (1 - c**k) / k)
        return min(p, 2 * eta + 2, 2 * zeta + 2, eta + zeta + 1)

    def noise_conditions(self) -> dict[str, float]:
        r"""Defects of the conditions (i), (ii), (iii) for strong order 3/2; a condition holds where its number is 0.

        (iii) is $\sum_{jl} \alpha_{jl} (\nu_j \nu_l + \kappa_j \kappa_l/12) = 0$ with
        $\alpha_{jl} = \sum_i a_{ji}(1 - a_{li}/b_i)$.
        """
        return _conditions(self.c, self.nu, self.kappa, self.a @ self.transfer)

    @property
    def strong_order(self) -> float:
        """Strong order for noise that is not additive (a constraint makes all noise so); 0 if (i) fails."""
        return strong_order(self.noise_conditions(), self.order)

    @property
    def weak_order(self) -> int:
        """Weak order: 2 where (i), the first of (ii) and (iii) hold on a method of order 2."""
        return weak_order(self.noise_conditions(), self.order)


@final
@dataclass(frozen=True)
class Kicks:
    r"""Kicks $w_j = \nu_j \Delta W + \kappa_j H$ at the times $c_j h$ of a step, with RATTLE steps between them.

    Conditions (i) and (ii) are those of a tableau; (iii') is
    $\sum_{j > l} (c_j - c_l)(\nu_j \nu_l + \kappa_j \kappa_l / 12) = 0$.
    """

    c: tuple[float, ...]
    nu: tuple[float, ...]
    kappa: tuple[float, ...]

    def noise_conditions(self) -> dict[str, float]:
        """Defects of (i), (ii), (iii'); a condition holds where its number is 0."""
        c, nu, kappa = np.array(self.c), np.array(self.nu), np.array(self.kappa)
        return _conditions(c, nu, kappa, np.maximum(c[:, None] - c, 0.0))

    @property
    def strong_order(self) -> float:
        """Strong order for noise that is not additive."""
        return strong_order(self.noise_conditions(), 2)

    @property
    def weak_order(self) -> int:
        """Weak order."""
        return weak_order(self.noise_conditions(), 2)

    def is_symmetric(self) -> bool:
        """Whether the kicks read the same backwards (with kappa odd)."""
        pairs = zip(self.c, self.nu, self.kappa, strict=True)
        mirrored = sorted((1.0 - c, nu, -kappa) for c, nu, kappa in pairs)
        return bool(np.allclose(mirrored, list(zip(self.c, self.nu, self.kappa, strict=True)), atol=_SAME))


def _conditions(c: np.ndarray, nu: np.ndarray, kappa: np.ndarray, alpha: np.ndarray) -> dict[str, float]:
    """Defects of (i)-(iii).  (iii) is the mean of the double noise term, which is zero for the Itô integral."""
    return {
        "(i) sum nu - 1": float(nu.sum() - 1.0),
        "(i) sum kappa": float(kappa.sum()),
        "(ii) sum nu c - 1/2": float(nu @ c - 0.5),
        "(ii) sum kappa c + 1": float(kappa @ c + 1.0),
        "(iii) double noise": float(nu @ alpha @ nu + kappa @ alpha @ kappa / 12.0),
    }


def strong_order(conditions: dict[str, float], order: int) -> float:
    """Strong order from the defects of (i)-(iii) and the deterministic order."""
    if not _vanish(conditions, "(i)"):
        return 0.0
    return 1.5 if order >= 2 and _vanish(conditions, "(i") else float(min(order, 1))


def weak_order(conditions: dict[str, float], order: int) -> int:
    """Weak order from the defects of (i)-(iii) and the deterministic order."""
    if not _vanish(conditions, "(i)"):
        return 0
    second = order >= 2 and _vanish(conditions, "(ii) sum nu") and _vanish(conditions, "(iii)")
    return 2 if second else min(order, 1)


def _vanish(conditions: dict[str, float], prefix: str) -> bool:
    return all(abs(defect) < _SAME for name, defect in conditions.items() if name.startswith(prefix))


def _holds(defect: Any) -> int:
    """Largest k such that the defects 1..k vanish (at most 20)."""
    k = 0
    while k < 20 and np.abs(defect(k + 1)).max() < _SAME:
        k += 1
    return k
