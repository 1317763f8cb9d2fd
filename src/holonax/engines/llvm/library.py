"""Functions of the C library that kernels call: a table of their addresses, which is filled in when code is loaded.

Machine code that is kept must not hold addresses, which are others in the next process.  Nor can it ask for functions
by name: what the linker would put between them and the code has no place in memory that is allocated in one piece, as
it has to be for constants to be close to the code.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache
from typing import Any

from holonax.compiler.ir.operations import OPERATIONS, Library

_TABLE = "library"
_FUNCTIONS = sorted({row.llvm.name for row in OPERATIONS.values() if isinstance(row.llvm, Library)})

DECLARATION = f"@{_TABLE} = dso_local global [{len(_FUNCTIONS)} x ptr] zeroinitializer"
"""The table in a module that needs it."""


def place_of(function: str) -> str:
    """Where a module finds the address of a function."""
    return f"getelementptr (ptr, ptr @{_TABLE}, i64 {_FUNCTIONS.index(function)})"


@cache
def _addresses() -> list[ctypes.c_void_p | int | None]:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    return [ctypes.cast(getattr(library, function), ctypes.c_void_p).value for function in _FUNCTIONS]


def fill_in(compiler: Any) -> None:
    """The table of code that was loaded, if it has one."""
    if place := compiler.get_global_value_address(_TABLE):
        (ctypes.c_void_p * len(_FUNCTIONS)).from_address(place)[:] = _addresses()
