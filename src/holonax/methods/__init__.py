"""The integrators, one idea per module.  A new method is a subclass of `Method` listed here."""

from holonax.methods.base import Method, Report
from holonax.methods.euler import EulerA, EulerB, EulerPrinted
from holonax.methods.kicked import Kicked
from holonax.methods.langevin.method import Langevin
from holonax.methods.maruyama import EulerMaruyama
from holonax.methods.vprk import VPRK, Lobatto, Lobatto32, Rattle

# What tests, tables, `Method.parse` and the command line know, in the order in which it is shown.
Method.listed = (
    EulerA,
    EulerB,
    EulerPrinted,
    VPRK,
    Rattle,
    Lobatto,
    Lobatto32,
    Kicked,
    Langevin,
    EulerMaruyama,
)

__all__ = [
    "VPRK",
    "EulerA",
    "EulerB",
    "EulerMaruyama",
    "EulerPrinted",
    "Kicked",
    "Langevin",
    "Lobatto",
    "Lobatto32",
    "Method",
    "Rattle",
    "Report",
]
