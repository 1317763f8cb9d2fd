"""A name for what is computed, by which it is known in the next process: a digest of values and of traced programs.

Python has no such name: `hash` and `id` differ from process to process, and text leaves things out (a traced program as
text does not show the constants of programs inside it).  So values are taken apart, down to numbers, texts and the
bytes of arrays, each with its type.  What cannot be taken apart, such as a function of Python, has no name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_MATTERING = {
    "jit": ("jaxpr",),
    "pjit": ("jaxpr",),
    "custom_jvp_call": ("call_jaxpr",),
    "custom_vjp_call": ("call_jaxpr",),
    "root": ("equations", "newton", "motions"),
}
"""Parameters of some primitives on which depends what they compute; of the others, all."""

_OWN_DERIVATIVES = {"custom_jvp_call", "custom_vjp_call"}
"""Primitives with derivatives that only Python knows."""


class NamelessError(Exception):
    """Something has no name that another process would find as well."""


def name_of_values(*values: Any, differentiated: bool = False) -> str:
    """A text of 40 characters, the same for equal values in every process.

    Programs among them that will be `differentiated` have no name where their derivatives cannot be seen in them.
    """
    digest = _Digest(differentiated)
    digest.value(values)
    return digest.hash.hexdigest()


class _Digest:
    """Takes values apart; each part is written with its type and its length, so that no two values look alike."""

    def __init__(self, differentiated: bool) -> None:
        self.differentiated = differentiated
        self.hash = blake2b(digest_size=20)

    def part(self, kind: str, content: bytes | str = b"") -> None:
        content = content.encode() if isinstance(content, str) else content
        self.hash.update(f"{kind} {len(content)}\n".encode())
        self.hash.update(content)

    def value(self, x: Any) -> None:
        """Anything."""
        if x is None or (isinstance(x, (bool, int, float, complex, str)) and not isinstance(x, Enum)):
            self.part(type(x).__name__, repr(x))
        elif isinstance(x, bytes):
            self.part("bytes", x)
        elif isinstance(x, (ClosedJaxpr, Jaxpr)):
            self.program(x)
        elif isinstance(x, (np.ndarray, np.generic, jax.Array)):
            self.array(x)
        elif isinstance(x, (tuple, list)):
            self.part(type(x).__name__, str(len(x)))
            for item in x:
                self.value(item)
        elif isinstance(x, Mapping):
            self.part("mapping", str(len(x)))
            for item in sorted(x.items()):
                self.value(item)
        else:
            self.object(x)

    def object(self, x: Any) -> None:
        """What is not a plain value: by its class, if that comes with us or with JAX, and by what is in it."""
        kind = type(x)
        if kind.__module__.split(".")[0] not in ("holonax", "jax", "jaxlib", "numpy", "fractions"):
            raise NamelessError(kind)
        self.part("class", f"{kind.__module__}.{kind.__qualname__}")
        text = repr(x)
        if isinstance(x, Enum):
            self.part("member", x.name)
        elif dataclasses.is_dataclass(x):
            for field in dataclasses.fields(x):
                self.part("field", field.name)
                self.value(getattr(x, field.name))
        elif " at 0x" in text or "..." in text:  # it says nothing, or not all
            raise NamelessError(kind)
        else:
            self.part("text", text)

    def array(self, x: Any) -> None:
        if isinstance(x, jax.core.Tracer) or jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
            raise NamelessError(type(x))
        array = np.asarray(x)
        if array.dtype.hasobject:
            raise NamelessError(array.dtype)
        self.part("array", f"{array.dtype} {array.shape} {getattr(x, 'weak_type', False)}")
        self.part("entries", array.tobytes())

    def program(self, program: ClosedJaxpr | Jaxpr) -> None:
        """A traced program: its variables are numbered in the order in which they appear."""
        jaxpr, constants = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, [])
        self.part("program", f"{len(jaxpr.constvars)} {len(jaxpr.invars)} {len(jaxpr.eqns)} {len(jaxpr.outvars)}")
        for constant in constants:
            self.value(constant)
        numbers: dict[Any, int] = {}

        def define(variable: Any) -> None:
            numbers[variable] = len(numbers)
            self.part("type", f"{variable.aval.str_short()} {getattr(variable.aval, 'weak_type', False)}")

        def use(atom: Any) -> None:
            if isinstance(atom, Literal):
                self.part("literal", atom.aval.str_short())
                self.value(atom.val)
            else:
                self.part("variable", str(numbers[atom]))

        for variable in (*jaxpr.constvars, *jaxpr.invars):
            define(variable)
        for equation in jaxpr.eqns:
            self.equation(equation)
            for atom in equation.invars:
                use(atom)
            for variable in equation.outvars:
                define(variable)
        for atom in jaxpr.outvars:
            use(atom)

    def equation(self, equation: Any) -> None:
        """The operation and its parameters; which variables enter is written by `program`."""
        name, parameters = equation.primitive.name, equation.params
        if self.differentiated and name in _OWN_DERIVATIVES:
            raise NamelessError(name)
        mattering = [x for x in _MATTERING.get(name, parameters) if x in parameters]
        self.part("primitive", f"{name} {len(equation.invars)} {len(equation.outvars)} {len(mattering)}")
        for parameter in sorted(mattering):
            self.part("parameter", parameter)
            self.value(parameters[parameter])
