"""What an engine wishes of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from holonax.compiler.ir.graph import Build, Node, NoiseTables, Untranslatable
from holonax.compiler.ir.operations import OPERATIONS

Expansions = Mapping[str, Callable[[Build, Node], Node]]
"""By the name of an operation: what computes it by other operations."""


class Target(NamedTuple):
    """Whom a program is for.

    Attributes:
        name: the column of the table of operations that says what is written for it.
        expansions: of functions that it does not have, or that we compute better.
        most: operations that it takes.
        tables: how noise is put in tables, if it is.
        trials: whether steps are tried quickly first, and taken again where that did not come off.
        long: operations from which on loops are looked for in a program, which would leave the cache of code.
        patience: seconds of compiling beyond which a program of loops over arrays is made instead, where there can be
            one.
    """

    name: Literal[
        "llvm",
        "cuda",
        "xla",
    ]
    expansions: Expansions
    most: int
    tables: NoiseTables | None = None
    trials: bool = False
    long: int | None = None
    patience: float = 5.5

    def check(self, operation: str) -> None:
        """Say so if the target has nothing for an operation."""
        if getattr(OPERATIONS[operation], self.name) is None:
            raise Untranslatable(f"the operation {operation!r}, for which it has no instruction")
