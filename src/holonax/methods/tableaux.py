r"""The tableaux, as constants computed in 50 digits and rounded once.

Lobatto IIIA is collocation at the Lobatto nodes: $c_i$ are the zeros of
$\frac{d^{s-2}}{dx^{s-2}} x^{s-1}(x - 1)^{s-1}$, and $a_{ij} = \int_0^{c_i} \ell_j$, $b_j = \int_0^1 \ell_j$ with the
Lagrange polynomials $\ell_j$ of the nodes.  Its symplectic conjugate is Lobatto IIIB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from holonax.errors import TableauError, shown
from holonax.methods.tableau import Kicks, Tableau

_DIGITS = 50
Polynomial = list[Decimal]  # coefficients, constant term first


def _at(polynomial: Polynomial, x: Decimal) -> Decimal:
    value = Decimal(0)
    for coefficient in reversed(polynomial):
        value = value * x + coefficient
    return value


def _derivative(polynomial: Polynomial) -> Polynomial:
    return [k * coefficient for k, coefficient in enumerate(polynomial)][1:]


def _integral(polynomial: Polynomial) -> Polynomial:
    return [Decimal(0)] + [coefficient / (k + 1) for k, coefficient in enumerate(polynomial)]


def _lobatto_nodes(stages: int) -> list[Decimal]:
    # x^(s-1) (x - 1)^(s-1), differentiated s - 2 times: integer coefficients, simple zeros in [0, 1].
    s = stages
    signs = [Decimal((-1) ** (s - 1 - k) * math.comb(s - 1, k)) for k in range(s)]
    polynomial = [Decimal(0)] * (s - 1) + signs
    for _ in range(s - 2):
        polynomial = _derivative(polynomial)
    slope = _derivative(polynomial)
    nodes = []
    for guess in sorted(np.roots([float(x) for x in reversed(polynomial)]).real):
        x = Decimal(float(guess))
        for _ in range(8):  # from 1e-10 to 50 digits: quadratic convergence needs 3
            x -= _at(polynomial, x) / _at(slope, x)
        nodes.append(x)
    nodes[0], nodes[-1] = Decimal(0), Decimal(1)
    return nodes


def _lagrange(nodes: list[Decimal], j: int) -> Polynomial:
    polynomial = [Decimal(1)]
    for i, node in enumerate(nodes):
        if i != j:
            shifted, scale = [Decimal(0), *polynomial], nodes[j] - node
            lowered = [node * x for x in polynomial] + [Decimal(0)]
            polynomial = [(x - y) / scale for x, y in zip(shifted, lowered, strict=True)]
    return polynomial


def lobatto(stages: int) -> Tableau:
    """Lobatto IIIA with 2 to 6 stages (order 2 stages - 2), noise weights `nu = b`, `kappa = 0`."""
    if isinstance(stages, bool) or not isinstance(stages, (int, np.integer)) or not 2 <= stages <= 6:
        raise TableauError(f"stages = {shown(stages)}: Lobatto tableaux are provided for 2, 3, 4, 5 and 6 stages")
    return _lobatto(int(stages))


@cache
def _lobatto(stages: int) -> Tableau:
    with localcontext(prec=_DIGITS):
        nodes = _lobatto_nodes(stages)
        integrals = [_integral(_lagrange(nodes, j)) for j in range(stages)]
        a = [[_at(integral, c) for integral in integrals] for c in nodes]
    return Tableau(a, a[-1])


RATTLE = lobatto(2)
"""The implicit trapezoidal rule, whose variational integrator is RATTLE."""


def _lobatto_32() -> Tableau:
    with localcontext(prec=_DIGITS):
        x = Decimal(1) / 2 - Decimal(2).sqrt() / 3
    three = lobatto(3)
    return Tableau(three.a, three.b, nu=[x, 1 - 2 * x, x], kappa=[1, 0, -1])


LOBATTO_32 = _lobatto_32()
"""Lobatto IIIA with 3 stages and the noise weights of strong order 3/2 (docs/errata.md, E3)."""

TABLEAUX: dict[str, Tableau | Callable[..., Tableau]] = {
    "RATTLE": RATTLE,
    "LOBATTO_32": LOBATTO_32,
    "lobatto": lobatto,
}
"""Tableaux, and functions that return one, by the names that `Method.parse` knows."""


def _symmetric_kicks() -> Kicks:
    with localcontext(prec=_DIGITS):
        x = (1 - (Decimal(2) / 3).sqrt()) / 2
    return Kicks(c=(0.0, 0.5, 1.0), nu=(float(x), float(1 - 2 * x), float(x)), kappa=(1.0, 0.0, -1.0))


KICKS = {
    "symmetric": _symmetric_kicks(),
    "milstein-tretyakov": Kicks(c=(0.0, 2.0 / 3.0), nu=(0.25, 0.75), kappa=(1.5, -1.5)),
    "midpoint": Kicks(c=(0.5,), nu=(1.0,), kappa=(0.0,)),
}
"""Kick schemes between RATTLE steps, by name."""
