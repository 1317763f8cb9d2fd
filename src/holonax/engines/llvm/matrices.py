"""Products, triangular systems and Cholesky factors of whole matrices as LLVM IR: three loops each.

Numbers of several paths lie side by side, so that an entry is a vector, and four entries are computed at a time: they
share the factor from the left, and do not wait for each other.  Of one path alone, eight columns are a vector.  Every
sum runs through its terms in order, so that a path has the same bits in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holonax.engines.llvm.path_functions import PathFunctions
from holonax.engines.llvm.structured import loop

MATRICES = "ptr %out, ptr %left, ptr %right, i64 %rows, i64 %inner, i64 %columns"

AT_A_TIME = 4
"""Entries of several paths."""

COLUMNS = 8
"""In a vector of one path."""


class ColumnBlock(NamedTuple):
    """Columns that are computed together: `values` of a type, each of which holds so many columns."""

    type: str
    values: int
    width: int


class MatrixFunctions(PathFunctions):
    """The functions of one module."""

    @property
    def blocks(self) -> list[ColumnBlock]:
        """From the widest to single columns."""
        one = ColumnBlock(self.type, 1, 1)
        if self.paths == 1:
            return [ColumnBlock(f"<{COLUMNS} x {self.kind}>", 1, COLUMNS), one]
        return [ColumnBlock(self.type, AT_A_TIME, 1), one]

    def text(self) -> list[str]:
        """All functions."""
        self._columns("product", self._product)
        self._columns("substitution", self._substitution)
        self._cholesky()
        return self.lines

    def place(self, i: str, width: str, j: str) -> str:
        """The number of an entry of a matrix."""
        return self.put(f"add i64 {self.put(f'mul i64 {i}, {width}')}, {j}")

    def _in_blocks(self, begin: str, sizes: list[int], body: Callable[[str, int], None], end: str) -> None:
        """From `begin` to `end`, as many at a time as there are left, by falling sizes."""
        for number, size in enumerate(sizes):

            def one(i: str, _: list[str], number: int = number) -> list[str]:
                body(i, number)
                return []

            left = self.put(f"sub i64 {end}, {begin}")
            full = self.put(f"mul i64 {self.put(f'sdiv i64 {left}, {size}')}, {size}")
            stop = self.put(f"add i64 {begin}, {full}")
            loop(self, begin, stop, [], one, step=size)
            begin = stop

    def _columns(self, name: str, rows: Callable[[ColumnBlock, str], None]) -> None:
        """A function that works through blocks of columns, and through the rows of each."""
        self.lines += [f"define internal void @matrix_{name}({MATRICES}) nounwind {{", "entry:"]
        blocks = self.blocks
        sizes = [block.values * block.width for block in blocks]
        self._in_blocks("0", sizes, lambda c, number: rows(blocks[number], c), "%columns")
        self.lines += ["  ret void", "}"]

    def _of_row(self, block: ColumnBlock, base: str, i: str, c: str) -> list[str]:
        """The entries of a block in a row."""
        first = self.place(i, "%columns", c)
        if block.width > 1:
            there = self.put(f"getelementptr {self.kind}, ptr {base}, i64 {first}")
            return [self.put(f"load {block.type}, ptr {there}, align {self.align}")]
        places = [first, *(self.put(f"add i64 {first}, {u}") for u in range(1, block.values))]
        return [self.load(base, place) for place in places]

    def _store_row(self, block: ColumnBlock, i: str, c: str, values: list[str]) -> None:
        first = self.place(i, "%columns", c)
        if block.width > 1:
            there = self.put(f"getelementptr {self.kind}, ptr %out, i64 {first}")
            self.lines.append(f"  store {block.type} {values[0]}, ptr {there}, align {self.align}")
            return
        for u, value in enumerate(values):
            self.store("%out", first if u == 0 else self.put(f"add i64 {first}, {u}"), value)

    def _factor(self, block: ColumnBlock, i: str, l: str) -> str:
        """An entry from the left, for all columns of a block."""
        value = self.load("%left", self.place(i, "%inner", l))
        return self.spread(value, block.type) if block.width > 1 else value

    def _minus_terms(self, block: ColumnBlock, base: str, i: str, c: str, begin: list[str], end: str) -> list[str]:
        """What a row begins with, less the products of the row from the left and the rows of `base`."""

        def term(l: str, values: list[str]) -> list[str]:
            factor = self._factor(block, i, l)
            below = self._of_row(block, base, l, c)
            return [self.minus_product(v, factor, x, block.type) for v, x in zip(values, below, strict=True)]

        return loop(self, "0", end, [(block.type, x) for x in begin], term)

    def _product(self, block: ColumnBlock, c: str) -> None:
        def row(i: str, _: list[str]) -> list[str]:
            zeros = [self.constant(0.0, block.type)] * block.values
            negative = self._minus_terms(block, "%right", i, c, zeros, "%inner")
            self._store_row(block, i, c, [self.put(f"fneg {block.type} {x}") for x in negative])
            return []

        loop(self, "0", "%rows", [], row)

    def _substitution(self, block: ColumnBlock, c: str) -> None:
        def row(i: str, _: list[str]) -> list[str]:
            values = self._minus_terms(block, "%out", i, c, self._of_row(block, "%right", i, c), i)
            one = self.constant(1.0, block.type)
            inverse = self.put(f"fdiv {block.type} {one}, {self._factor(block, i, i)}")
            self._store_row(block, i, c, [self.put(f"fmul {block.type} {x}, {inverse}") for x in values])
            return []

        loop(self, "0", "%rows", [], row)

    def _cholesky(self) -> None:
        r"""Column by column, some rows at a time: $C_{ij} = (A_{ij} - \sum_{l<j} C_{il} C_{jl}) / C_{jj}$."""
        self.lines += [f"define internal void @matrix_cholesky({MATRICES}) nounwind {{", "entry:"]

        def minus_products(j: str, rows: list[str]) -> list[str]:
            def term(l: str, values: list[str]) -> list[str]:
                own = self.load("%out", self.place(j, "%rows", l))
                others = [self.load("%out", self.place(i, "%rows", l)) for i in rows]
                return [self.minus_product(v, own, x) for v, x in zip(values, others, strict=True)]

            begin = [self.load("%left", self.place(i, "%rows", j)) for i in rows]
            return loop(self, "0", j, [(self.type, x) for x in begin], term)

        def column(j: str, _: list[str]) -> list[str]:
            (rest,) = minus_products(j, [j])
            pivot = self.call("sqrt", rest)
            self.store("%out", self.place(j, "%rows", j), pivot)
            inverse = self.put(f"fdiv {self.type} {self.constant(1.0)}, {pivot}")

            def below(i: str, number: int) -> None:
                rows = [i, *(self.put(f"add i64 {i}, {u}") for u in range(1, [AT_A_TIME, 1][number]))]
                for place, value in zip(rows, minus_products(j, rows), strict=True):
                    self.store("%out", self.place(place, "%rows", j), self.put(f"fmul {self.type} {value}, {inverse}"))

            self._in_blocks(self.put(f"add i64 {j}, 1"), [AT_A_TIME, 1], below, "%rows")

            def above(i: str, _: list[str]) -> list[str]:
                self.store("%out", self.place(i, "%rows", j), self.constant(0.0))
                return []

            return loop(self, "0", j, [], above)

        loop(self, "0", "%rows", [], column)
        self.lines += ["  ret void", "}"]
