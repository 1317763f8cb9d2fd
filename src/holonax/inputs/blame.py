"""Whose line an error arose in, and what to write there instead."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a number is wanted that is not known yet."""

_BY_VALUES = re.compile(r"\b(nonzero|flatnonzero|argwhere|unique|compress|extract)\(")
"""Functions of NumPy whose results are as long as values say."""

_PACKAGES = Path(jax.__file__).parent.parent
_OURS = Path(__file__).parent.parent
_LIBRARIES = tuple(map(str, (_PACKAGES / "jax", _PACKAGES / "jaxlib", Path(np.__file__).parent, _OURS)))
_STANDARD = sysconfig.get_path("stdlib")


def first_line(error: BaseException | None) -> str:
    """What an error says, without what libraries add to it."""
    return str(error).strip().split("\n")[0][:300].rstrip(".")


def location(error: BaseException, function: Any) -> str:
    """In brackets: the user's own line in which an error arose, or else where the function begins."""
    frame = _frame(error)
    if frame is None:
        return definition(function)
    code = _code(frame)
    return f" ({_line(frame.filename, frame.lineno)}{f': {code}' if code else ''})"


def place(frames: Iterable[Any]) -> str:
    """In brackets: the first of JAX's frames, innermost first, that is the user's; empty if there is none."""
    return next((f" ({_line(x.file_name, x.line_num)})" for x in frames if _is_users(x.file_name)), "")


def definition(function: Any) -> str:
    """In brackets: where a function begins, if that can be known."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    return f" ({_line(code.co_filename, code.co_firstlineno)})" if code is not None else ""


def hint(error: Exception) -> str:
    """What to write instead, where a function does what JAX cannot follow; empty where that is not it."""
    frame = _frame(error)
    code = _code(frame) if frame is not None else ""
    masked = isinstance(error, jax.errors.NonConcreteBooleanIndexError)
    if masked or (isinstance(error, TRACED) and _BY_VALUES.search(code)):
        return "how many entries there are must not depend on the state: keep all, and use jnp.where(condition, x, 0)"
    if not isinstance(error, TypeError):
        return ""
    if (found := re.search(r"\b(math|np|numpy)\.(?:\w+\.)*(\w+)", code)) is not None:
        module, name = found.groups()
        return f"use {f'jnp.{name}' if hasattr(jnp, name) else 'jax.numpy'} instead of {module}.{name}"
    if not isinstance(error, TRACED):
        return ""
    if (found := re.match(r"(float|int|bool)\(", code)) is not None:
        return f"leave out {found[1]}(): values must stay arrays of JAX"
    if (found := re.match(r"(\w+)\(", code)) is not None and hasattr(jnp, found[1]):
        return f"use jnp.{found[1]} instead of {found[1]}"
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return "use jnp.where instead of if, and jnp.logical_and instead of and"
    return "use functions of jax.numpy: jnp.sin instead of math.sin or np.sin, no float(), no if on values"


def _is_users(file: str) -> bool:
    standard = file.startswith(_STANDARD) and "site-packages" not in file
    return not (standard or file.startswith(("<frozen", *_LIBRARIES)))


def _line(file: str, number: int | None) -> str:
    return f"line {number} of {file}"


def _frame(error: BaseException) -> traceback.FrameSummary | None:
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if _is_users(frame.filename)), None)


def _code(frame: traceback.FrameSummary) -> str:
    """The expression at fault, or its whole line."""
    line = linecache.getline(frame.filename, frame.lineno or 0)
    if frame.lineno == frame.end_lineno and frame.colno is not None:
        line = line.encode()[frame.colno : frame.end_colno].decode(errors="replace") or line
    return line.strip()
