"""What a method is: a pure function of one path, `(system, state, increment) -> (state, report)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from jax import Array

from holonax.inputs.checks import instance
from holonax.mechanics.noise import Increment
from holonax.mechanics.system import State, System
from holonax.methods.text import read
from holonax.numerics.newton import Newton, Solved


class Report(NamedTuple):
    r"""What observers may want to know of a step, and the next step does not need.

    `V` are the velocities of the stages, `lam` the constraint impulses $h b_i \Lambda^i$ in the order in which they
    act, the last one being that of the projection.  `outcome` is the number of the method's outcome that came about.
    """

    status: Array
    residual: Array
    iterations: Array
    V: Array
    lam: Array
    outcome: Array | np.int32 = np.int32(0)

    @staticmethod
    def of(solved: Solved, V: Array, lam: Array) -> Report:
        """The report of a step whose equations were `solved`."""
        return Report(solved.status, solved.residual, solved.iterations, V, lam)


class Method(ABC):
    r"""An integrator.  Frozen and hashable: it is a value, and compiled programs are cached by it.

    The declared orders are measured by the tests; so are the flags.

    Attributes:
        order: order for deterministic systems.
        strong_order: strong order with noise.
        weak_order: weak order with noise.
        symplectic: whether the canonical 2-form on $T^*S$ is preserved, for every L.
        symmetric: whether a step backwards undoes a step forwards.
        keeps_manifold: whether states stay on $T^*S$.
        cost: unknowns of the equations that a step solves, before the projection's n + k.
        outcomes: names of what a step may come to, for methods that accept or reject; a run counts them.
        listed: the methods that come with holonax; one's own are used without being listed.
    """

    symplectic: ClassVar[bool] = True
    keeps_manifold: ClassVar[bool] = True
    listed: ClassVar[tuple[type[Method], ...]]  # what comes with holonax, in methods/__init__.py, which imports it all

    def __post_init__(self) -> None:
        instance("newton", getattr(self, "newton", Newton()), Newton, "pass one such as hx.Newton(max_iterations=25)")

    @property
    @abstractmethod
    def order(self) -> int:
        """Order for deterministic systems."""

    @property
    @abstractmethod
    def strong_order(self) -> float:
        """Strong order with noise."""

    @property
    @abstractmethod
    def weak_order(self) -> int:
        """Weak order with noise."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether a step backwards undoes a step forwards."""

    @property
    @abstractmethod
    def cost(self) -> str:
        """Unknowns of the equations that a step solves, before the projection's n + k."""

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of what a step may come to; most methods have nothing to count."""
        return ()

    def noises(self, system: System, n: int) -> int:
        """Number of Wiener processes that drive a step: one per stochastic potential."""
        return system.sizes(n)[1]

    def check(self, system: System, start: State) -> None:  # noqa: B027 - most methods take every system
        """Raise an InputError if the method is not made for this system."""

    def concern(self, counts: dict[str, np.ndarray]) -> str | None:
        """What a user should be warned of after a run with these outcomes per path, or None."""
        return None

    @abstractmethod
    def step(self, system: System, state: State, increment: Increment) -> tuple[State, Report]:
        """Advance one path by one step."""

    @classmethod
    def typical(cls) -> Iterator[Method]:
        """The instances of a listed class that tests, tables and demos show: the default one, unless it has others."""
        yield cls()

    @classmethod
    def examples(cls) -> Iterator[Method]:
        """The typical instances of all listed methods, as far as they belong to this class."""
        return (method for kind in Method.listed for method in kind.typical() if isinstance(method, cls))

    @staticmethod
    def parse(text: str) -> Method:
        """The method that a text describes, one of those that come with holonax.

        Arguments are numbers, words, methods, `Newton(...)` and tableaux: `RATTLE`, `LOBATTO_32`, `lobatto(stages)` or
        `Tableau(a, b, nu, kappa)`.  `Name:arguments` is the same as `Name(arguments)`.

        >>> import holonax as hx
        >>> hx.Method.parse("Langevin(friction=1, temperature=0.5, core=Rattle())").core
        Rattle()
        >>> hx.Method.parse("VPRK(lobatto(4))").order, hx.Method.parse("Kicked:midpoint")
        (6, Kicked(scheme='midpoint'))
        """
        instance("text", text, str, "pass one such as 'Lobatto(4)'")
        return read(text, "method", {kind.__name__: kind for kind in Method.listed})
