"""Functions that users bring: tried before anything is built on them, and their errors told as theirs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import Array

from holonax.errors import HolonaxError, InputError, shown
from holonax.inputs.blame import TRACED, definition, first_line, hint, location, place
from holonax.inputs.bounds import out_of_range
from holonax.inputs.parameters import asked_for, kinds

LARGEST_GUESSED_DIMENSION = 64


class Fault(NamedTuple):
    """What is wrong with a function; the `cause` is what it raised, None if it returned the wrong thing."""

    what: str
    where: str
    remedy: str
    cause: Exception | None = None

    def error(self) -> InputError:
        """The same as an exception."""
        told = InputError(f"{self.what}{self.where}" + (f"; {self.remedy}" if self.remedy else ""))
        told.__cause__ = self.cause
        return told


@final
@dataclass(frozen=True)
class Foreign:
    """A function of one or more vectors of n coordinates.

    Attributes:
        name: the argument that it came by.
        function: the function.
        takes: what it is called with, in words.
        returns: what it must return: "number" (real, with derivatives), "vector" (such a number, or a vector of them),
            "value" (any real number, without derivatives) or "array" (any real array, or what can be made one).
        parameters: those that exist; it gets the ones that it asks for.
    """

    name: str
    function: Callable[..., Any]
    takes: tuple[str, ...]
    returns: Literal["number", "vector", "value", "array"]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    # Before it is called.

    def check(self, remembered: bool = True) -> None:
        """Raise unless it is a function, and one that compiled programs can be remembered by if they are to be."""
        if not callable(self.function):
            raise InputError(
                f"{self.name} = {shown(self.function)} is not a function of ({', '.join(self.takes)}); "
                "write it as a plain Python function"
            )
        try:
            hash(self.function if remembered else None)
        except TypeError as error:
            raise InputError(
                f"{self.name} = {shown(self.function)} cannot be hashed, and compiled programs are remembered by "
                "their functions; write a plain function that closes over the data, or put eq=False on its dataclass"
            ) from error

    def check_signature(self) -> None:
        """Raise unless it can be called with as many arguments as it will be."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # many builtin functions have none
            return
        try:
            signature.bind(*self.takes, **dict.fromkeys(asked_for(self.function, self.parameters)))
        except TypeError as error:
            called = ", ".join(self.takes)
            raise InputError(
                f"{self.name} takes {signature}{definition(self.function)}, and is called with ({called}): {error}; "
                f"write it as a function of ({called})" + (", and of parameters after a *" if self.parameters else "")
            ) from None

    def asked(self, n: int) -> dict[str, Any]:
        """What it gets beside vectors of n coordinates."""
        return kinds({name: self.parameters[name] for name in asked_for(self.function, self.parameters)}, n)

    # When it is called.

    def result(self, n: int, dtype: Any = None) -> jax.ShapeDtypeStruct:
        """Shape and type of what it returns for n coordinates, or an InputError that tells what is wrong with it.

        That n is to blame is said only where another number of coordinates is no problem.
        """
        found = self._attempt(n, dtype)
        if not isinstance(found, Fault):
            return found
        raised = found.cause is not None and not isinstance(found.cause, TRACED)
        fits = next(filter(self.accepts, range(1, LARGEST_GUESSED_DIMENSION + 1)), None) if raised else None
        if fits is not None:
            what = f"{self.name} does not accept {n} coordinates: {first_line(found.cause)}"
            found = found._replace(what=what, remedy=f"it accepts {fits}: use that many, or correct {self.name}")
        raise found.error()

    def accepts(self, n: int) -> bool:
        """Whether it can be called with n coordinates."""
        try:
            return not isinstance(self._attempt(n), Fault)
        except HolonaxError:  # of a parameter that is made for n coordinates
            return False

    def check_anywhere(self) -> None:
        """Raise if it fails in the same way for any number of coordinates, so that none can be to blame."""
        faults = [self._attempt(n) for n in (1, 2, LARGEST_GUESSED_DIMENSION)]
        told = [fault for fault in faults if isinstance(fault, Fault)]
        if len(told) == len(faults) and (told[0].cause is None or len({fault.what for fault in told}) == 1):
            raise told[0].error()

    def check_derivatives(self, n: int) -> None:
        """Raise unless there are derivatives of first and second order."""
        vector = jax.ShapeDtypeStruct((n,), jnp.result_type(float))
        numbers = tuple(range(len(self.takes)))

        def second(parameters: dict[str, Array], *arguments: Array) -> Any:
            def pulled_back(*arguments: Array) -> Any:
                value, pullback = jax.vjp(partial(self.function, **parameters), *arguments)
                return pullback(jnp.ones_like(value))

            return jax.jacfwd(pulled_back, numbers)(*arguments)

        try:
            jax.eval_shape(second, self.asked(n), *[vector] * len(numbers))
        except Exception as error:
            what = f"{self.name} cannot be differentiated twice: {type(error).__name__}: {first_line(error)}"
            remedy = "write it with functions of jax.numpy that have derivatives"
            raise Fault(what, location(error, self.function), remedy, error).error() from error

    def _attempt(self, n: int, dtype: Any = None) -> jax.ShapeDtypeStruct | Fault:
        vector = jax.ShapeDtypeStruct((n,), jnp.result_type(float) if dtype is None else jnp.dtype(dtype))
        parameters = self.asked(n)
        wrong: list[Fault] = []

        def value(parameters: dict[str, Array], *arguments: Array) -> Any:
            found = self.function(*arguments, **parameters)
            if (fault := self._wrong_kind(found)) is not None:
                wrong.append(fault)
                return 0.0
            return jnp.asarray(found) if self.returns == "array" else found

        try:
            traced = jax.make_jaxpr(value)(parameters, *[vector] * len(self.takes))
        except HolonaxError:
            raise
        except TRACED as error:
            what = f"{self.name} wants a plain number where JAX knows only a symbol"
            return Fault(what, location(error, self.function), hint(error), error)
        except Exception as error:
            what = f"{self.name} raised {type(error).__name__}: {first_line(error)}"
            return Fault(what, location(error, self.function), hint(error) or "correct it there", error)
        for message, equation in out_of_range(traced):
            where = place(equation.source_info.traceback.frames) or definition(self.function)
            return Fault(f"{self.name}: {message}", where, "JAX would take the last entry", IndexError(message))
        (found,) = traced.out_avals
        fault = wrong[0] if wrong else self._wrong_type(found, n)
        return jax.ShapeDtypeStruct(found.shape, found.dtype) if fault is None else fault

    def _wrong_kind(self, found: Any) -> Fault | None:
        if hasattr(found, "dtype") or hasattr(found, "__jax_array__") or isinstance(found, (int, float, complex)):
            return None
        remedy = "return a real number or an array"
        if isinstance(found, (list, tuple)):
            if self.returns == "array":
                return None
            remedy = "return an array: jnp.array([...])"
        elif found is None:
            remedy = "end it with a return"
        what = "None" if found is None else f"a {type(found).__name__}"
        return Fault(f"{self.name} returns {what}", definition(self.function), remedy)

    def _wrong_type(self, found: Any, n: int) -> Fault | None:
        where = definition(self.function)
        if jnp.issubdtype(found.dtype, jnp.complexfloating):
            what = f"{self.name}({', '.join(self.takes)}) is of type {found.dtype}"
            return Fault(what, where, "it must be real: use its real and imaginary parts, or its modulus")
        if self.returns in ("number", "vector") and not jnp.issubdtype(found.dtype, jnp.floating):
            what = f"{self.name} returns {found.dtype}, which has no derivative"
            return Fault(what, where, "return a float, such as 0.0 instead of 0")
        shape = f"{self.name} returns shape {found.shape} for n = {n}"
        if self.returns in ("number", "value") and found.shape != ():
            return Fault(shape, where, "it must return a number")
        if self.returns == "vector" and len(found.shape) > 1:
            return Fault(shape, where, "return a number or a vector")
        return None
