r"""A constrained stochastic mechanical system, and a point of its phase space.

$$ dq = v\,dt, \qquad dp = L_q(q, v)\,dt + \sum_r \gamma_r'(q) \circ dW_r + g'(q)^T d\lambda, \qquad p = L_v(q, v),
\qquad g(q) = 0. $$

Three plain functions say it all; every derivative that the methods need is one line of autodiff here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError, shown
from holonax.inputs.checks import at_least, choice, instance, is_traced, unit_names
from holonax.inputs.foreign import LARGEST_GUESSED_DIMENSION, Foreign
from holonax.inputs.made import Made, Recipe
from holonax.inputs.parameters import as_values, asked_for, check_known, check_names, forms, given, recipes_in, shape_of
from holonax.numerics.newton import Newton, Status
from holonax.viewer.drawing import Drawing


class State(NamedTuple):
    r"""A point $(q, p)$ of $T^*S$; `v` is the velocity that belongs to it, kept only as Newton's next guess."""

    q: Any  # arrays of JAX, or of NumPy outside it
    p: Any
    v: Any = None

    @property
    def guess(self) -> Array:
        """The velocity to start Newton from: `v` if the last step left one, otherwise rest."""
        return jnp.zeros_like(self.q) if self.v is None else self.v


@final
@dataclass(frozen=True, eq=False)
class System:
    r"""A Lagrangian $L(q, v)$ with holonomic constraints $g(q) = 0$ and stochastic potentials $\gamma_r(q)$.

    Args:
        lagrangian: `L(q, v)`, a scalar; need not be separable, but $L_{vv}$ must be invertible.
        constraint: `g(q)`, a scalar or a vector of $k < n$ independent functions; None if there is none.
        noise: `gamma(q)`, a scalar or a vector of $m$ potentials, each driven by its own Wiener process; None if none.
        n: number of coordinates.  Only `hx.increments` ever needs it, to count the potentials before there is a start;
            left out, it is the smallest number of coordinates that the three functions accept.
        parameters: real numbers or arrays of them by name, kept as floats; each function gets those that it asks for by
            keyword-only arguments.
        redundant: "refuse" constraints that depend on each other, or "allow" them: `hx.start` and every run then keep
            as many as are independent at the start, and the others, which follow from them, are only watched
            (`hx.independent`).  Numbers of constraints, `redundant=(9,)`, say which ones these are.
        drawing: how `run.view` draws it, `hx.Drawing`; left out, as its coordinates and constraints suggest.
        units: names of the units of "q", "p" and "time", as far as they are known, such as `{"q": "nm", "time": "ps"}`:
            for axes of figures, and for datasets of xarray.  Nothing is converted.
        origin: how it is found again, as text: a catalogue entry such as `chain(beads=8)`, or `file.py:name`.  Set by
            the catalogue and by the command line; has no part in what a system is.

    Other values of the parameters need no new program, for all paths (`replace`) or for each path its own
    (`hx.simulate(..., parameters=)`):

    >>> import holonax as hx
    >>> def lagrangian(q, v, *, gravity):
    ...     return 0.5 * v @ v - gravity * q[2]
    >>> pendulum = hx.System(lagrangian, lambda q, *, length: q @ q - length**2,
    ...                      parameters={"gravity": 9.81, "length": 1.0})
    >>> on_the_moon = pendulum.replace(gravity=1.62)
    >>> start = hx.start(pendulum, q=[1.0, 0.0, 0.0])
    >>> run = hx.simulate(pendulum, hx.Rattle(), start, t1=0.5, h=2**-6, parameters={"gravity": [9.81, 3.72, 1.62]})
    >>> run.q[:, -1, 2].round(3)
    array([-0.921, -0.445, -0.201])

    Functions may close over values as well; when these change, everything is compiled anew.
    """

    lagrangian: Callable[..., Array]
    constraint: Callable[..., Array] | None = None
    noise: Callable[..., Array] | None = None
    n: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    redundant: str | tuple[int, ...] = "refuse"
    drawing: Drawing | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(as_values(self.parameters)))
        object.__setattr__(self, "redundant", _redundant(self.redundant))
        if self.drawing is not None:
            instance("drawing", self.drawing, Drawing, "pass hx.Drawing(...)")
        object.__setattr__(self, "units", MappingProxyType(unit_names(self.units)))
        for function in self.functions():
            function.check()
        if self.n is not None:
            object.__setattr__(self, "n", at_least(1, "n", self.n, "a system has at least 1 coordinate"))
        asked: set[str] = set()
        for function in self.functions():
            check_names(function.name, function.function, self.parameters)
            function.check_signature()
            asked.update(asked_for(function.function, self.parameters))
        for name in self.parameters:
            if name not in asked:
                raise InputError(
                    f"none of lagrangian, constraint and noise asks for the parameter {name!r}; "
                    f"write it as a keyword-only argument: def lagrangian(q, v, *, {name})"
                )

    # With other parameters.

    def replace(self, **values: Any) -> System:
        """The same system with other values of some parameters, in the shapes that they have."""
        values = as_values(values)
        for name, value in values.items():
            check_known(name, self.parameters)
            if (found := shape_of(value)) != (own := shape_of(self.parameters[name])):
                raise InputError(
                    f"{name} has shape {found} but the system has it with {own}; one value per path is for "
                    "hx.simulate(..., parameters=)"
                )
        return self.given({**self.parameters, **values})

    def given(self, values: Mapping[str, Any]) -> System:
        """The same functions with these values of all parameters, which may be traced."""
        return replace(self, parameters=values) if values else self

    @property
    def form(self) -> System:
        """What programs are compiled for: parameters by name and shape, without values."""
        return self.given(forms(self.parameters))

    def around(self, q: Any) -> System:
        """The same system, with the lists among its parameters (`hx.pairs`) made for the state q.

        Once a particle has moved from there further than half the skin, a sum over the list is not a number.
        """
        made = {name: recipe.around(q) for name, recipe in self.recipes.items()}
        return self.given({**self.parameters, **made}) if made else self

    @property
    def recipes(self) -> dict[str, Recipe]:
        """How those parameters are made that are made for states."""
        return recipes_in(self.parameters)

    @property
    def made(self) -> list[Made]:
        """Parameters that were made for a state."""
        return [x for x in self.parameters.values() if isinstance(x, Made)]

    def covers(self, q: Array) -> Array:
        """Whether what was made for a state is good for q."""
        return jnp.all(jnp.array([x.covers(q) for x in self.made], bool))

    def _identity(self) -> Hashable:
        """Two systems are the same if their functions are, and their parameters, with the values that are known."""

        def known(x: Any) -> Hashable:
            if isinstance(x, (jax.core.Tracer, Made)):
                return id(x)
            return x.tobytes() if isinstance(x, np.ndarray) else x if isinstance(x, Recipe) else None

        values = tuple((name, shape_of(x), known(x)) for name, x in self.parameters.items())
        return self.lagrangian, self.constraint, self.noise, self.n, values, self.redundant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, System) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, ...]:
        return System, (
            self.lagrangian, self.constraint, self.noise, self.n, dict(self.parameters), self.redundant, self.drawing,
            dict(self.units), self.origin,
        )  # fmt: skip

    # The three functions with their parameters, as numbers and vectors, also where there are none.

    def L(self, q: Array, v: Array) -> Array:
        """The Lagrangian."""
        return given(self.lagrangian, self.parameters)(q, v)

    def g(self, q: Array) -> Array:
        """Constraints, shape (k,), without those that are known to follow from the others."""
        everything = self._vector(self.constraint, q)
        return everything[np.delete(np.arange(everything.size), self.implied)] if self.implied else everything

    def g_implied(self, q: Array) -> Array:
        """The constraints that follow from the others."""
        return self._vector(self.constraint, q)[np.array(self.implied, int)]

    @property
    def implied(self) -> tuple[int, ...]:
        """Numbers of the constraints that are known to follow from the others."""
        return self.redundant if isinstance(self.redundant, tuple) else ()

    def gamma(self, q: Array) -> Array:
        """Stochastic potentials, shape (m,)."""
        return self._vector(self.noise, q)

    def _vector(self, function: Callable[..., Array] | None, q: Array) -> Array:
        if function is None:
            return jnp.zeros((0,), q.dtype)
        return jnp.atleast_1d(given(function, self.parameters)(q)).astype(q.dtype)

    # First derivatives.

    def momentum(self, q: Array, v: Array) -> Array:
        r"""Legendre transform $p = L_v(q, v)$."""
        return jax.grad(self.L, argnums=1)(q, v)

    def force(self, q: Array, v: Array) -> Array:
        r"""$L_q(q, v)$."""
        return jax.grad(self.L, argnums=0)(q, v)

    def hidden(self, q: Array, v: Array) -> Array:
        r"""Left side of the hidden constraint, $g'(q) v$."""
        return jax.jvp(self.g, (q,), (v,))[1]

    def reaction(self, q: Array, lam: Array) -> Array:
        r"""Impulse of the constraints, $g'(q)^T \lambda$."""
        return _pullback(self.g, q, lam)

    def kick(self, q: Array, w: Array) -> Array:
        r"""Impulse of the noise, $\sum_r w_r \gamma_r'(q)$."""
        return _pullback(self.gamma, q, w)

    # What follows from them.

    def mass(self, q: Array, v: Array) -> Array:
        r"""Mass matrix $L_{vv}(q, v)$."""
        return jax.jacfwd(self.momentum, argnums=1)(q, v)

    def velocity(self, q: Array, p: Array, guess: Array | None = None) -> Array:
        r"""Inverse Legendre transform: $v$ with $L_v(q, v) = p$; NaN where Newton finds none."""
        begin = jnp.zeros_like(q) if guess is None else guess
        (v,), solved = Newton()(lambda v: self.momentum(q, v) - p, (begin,))
        return jnp.where(solved.status == Status.CONVERGED, v, jnp.nan)

    def energy(self, q: Array, p: Array) -> Array:
        r"""Hamiltonian $H(q, p) = p \cdot v - L(q, v)$."""
        system = self if is_traced(q) or self.made else self.around(q)
        v = system.velocity(q, p)
        return p @ v - system.L(q, v)

    # Sizes.

    def functions(self) -> Iterator[Foreign]:
        """What there is of lagrangian, constraint and noise, to be tried out."""
        yield Foreign("lagrangian", self.lagrangian, ("q", "v"), "number", self.parameters)
        if self.constraint is not None:
            yield Foreign("constraint", self.constraint, ("q",), "vector", self.parameters)
        if self.noise is not None:
            yield Foreign("noise", self.noise, ("q",), "vector", self.parameters)

    def sizes(self, n: int) -> tuple[int, int]:
        """Number of constraints and of stochastic potentials `(k, m)` at `n` coordinates."""
        sizes = {function.name: math.prod(function.result(n).shape) for function in self.functions()}
        k = sizes.get("constraint", 0)
        if self.implied and self.implied[-1] >= k:
            raise InputError(f"redundant names constraint {self.implied[-1]}, but there are {k}, numbered from 0")
        return k - len(self.implied), sizes.get("noise", 0)

    def dimension(self) -> int:
        """`n` as given, or the smallest number of coordinates that lagrangian, constraint and noise accept."""
        if self.n is not None:
            return self.n
        for n in range(1, LARGEST_GUESSED_DIMENSION + 1):
            if all(function.accepts(n) for function in self.functions()):
                return n
        for function in self.functions():
            function.check_anywhere()
        raise InputError(
            f"no number of coordinates up to {LARGEST_GUESSED_DIMENSION} fits lagrangian, constraint and noise; "
            "say it: hx.System(..., n=...)"
        )

    def check_derivatives(self, n: int) -> None:
        """Raise unless the functions have the derivatives that methods need, at `n` coordinates."""
        for function in self.functions():
            function.check_derivatives(n)


@final
@dataclass(frozen=True)
class MethodOf:
    """A method of a system as a function of q, p and of all of the system's parameters."""

    form: System
    name: str

    def __call__(self, q: Array, p: Array, **values: Any) -> Array:
        """Its value."""
        return getattr(self.form.given(values), self.name)(q, p)


def _redundant(value: Any) -> str | tuple[int, ...]:
    """As it is kept: a word, or numbers in order."""
    if isinstance(value, str):
        choice("redundant", value, ("refuse", "allow"))
        return value
    if not isinstance(value, (tuple, list)):
        raise InputError(f'redundant = {shown(value)}: pass "refuse", "allow" or numbers of constraints such as (9,)')
    return tuple(sorted({at_least(0, "redundant", x, "constraints are numbered from 0") for x in value}))


def _pullback(function: Callable[[Array], Array], q: Array, w: Array) -> Array:
    value, pullback = jax.vjp(function, q)
    return pullback(w.astype(value.dtype))[0]
