"""Sparse elimination as LLVM IR: one function that works through the lists of `holonax.numerics.tape`, and dense ones.

All numbers are those of one path, or of a vector of paths.  Stretches of a single path are in
`holonax.engines.llvm.stretches`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holonax.engines.llvm.stretches import StretchFunctions
from holonax.engines.llvm.structured import choose, loop
from holonax.numerics.tape_runs import DIAGONAL, PIVOTS, SUMS

SWEEP = "ptr %w, ptr %runs, i64 %number, ptr %o, ptr %s, ptr %c, ptr %left, ptr %right, "
SWEEP += "i64 %inverse, ptr %signs, ptr %bounds, ptr %bad"
DENSE = "ptr %m, i64 %size, ptr %inverse, ptr %signs, ptr %bad, ptr %x"
EPSILON = {"double": 2.0**-52, "float": 2.0**-23}
FIELDS = 8
"""Of a run."""


class EliminationFunctions(StretchFunctions):
    """The functions of one module."""

    def text(self) -> list[str]:
        """All functions."""
        self._sweep()
        self._dense_factor()
        self._dense_solve()
        return self.lines

    # Pieces of syntax.

    def field(self, run: str, which: int) -> str:
        """A number of a run."""
        place = self.put(f"add i64 {self.put(f'mul i64 {run}, {FIELDS}')}, {which}")
        return self.put(f"load i64, ptr {self.put(f'getelementptr i64, ptr %runs, i64 {place}')}")

    def known(self, table: str, place: str) -> str:
        """A number that is the same for all paths."""
        there = self.put(f"getelementptr {self.kind}, ptr {table}, i64 {place}")
        return self.spread(self.put(f"load {self.kind}, ptr {there}"))

    # Functions.

    def _sweep(self) -> None:
        """Work through runs of sums."""
        self.lines += [f"define internal void @sweep({SWEEP}) nounwind {{", "entry:"]

        def run(i: str, _: list[str]) -> list[str]:
            begin, end, width, first, what, beside, _opens, even = (self.field(i, which) for which in range(FIELDS))

            def listed(kind: int) -> None:
                loop(self, begin, end, [], lambda t, _: self._one(kind, t, begin, width, first, beside))

            cases: dict[int, Callable[[], None]] = {k: partial(listed, k) for k in (SUMS, DIAGONAL, PIVOTS)}
            if self.paths == 1:
                stretch = partial(self.stretch, begin, end, width, first, what, beside)
                what = self.put(f"select i1 {self.put(f'icmp ne i64 {even}, 0')}, i64 {len(cases)}, i64 {what}")
                cases[len(cases)] = stretch
            choose(self, what, cases)
            return []

        loop(self, "0", "%number", [], run)
        self.lines += ["  ret void", "}"]

    def _one(self, what: int, t: str, begin: str, width: str, first: str, beside: str) -> list[str]:
        """Sum t."""
        out, scale = self.number("%o", t), self.load("%w", self.number("%c", t))
        if what == PIVOTS:
            which = self.put(f"sub i64 {out}, %inverse")
            bound, sign = self.known("%bounds", which), self.known("%signs", which)
            value = self.load("%w", self.number("%s", t))
            inverse, bad = self.pivot(value, scale, bound, sign, self.type)
            self.store("%w", out, inverse)
            self.note(bad)
            return []
        total, subtracted = self._sum(t, begin, width, first, with_sizes=what == DIAGONAL)
        if what == DIAGONAL:
            self.store("%w", out, total)
            size = self.put(f"fadd {self.type} {scale}, {subtracted}")
            self.store("%w", self.put(f"add i64 {out}, {beside}"), size)
        else:
            self.store("%w", out, self.put(f"fmul {self.type} {total}, {scale}"))
        return []

    def _sum(self, t: str, begin: str, width: str, first: str, with_sizes: bool) -> tuple[str, str]:
        """What sum t begins with, less its terms; and the sizes of these."""
        start = self.load("%w", self.number("%s", t))
        before = self.put(f"mul i64 {self.put(f'sub i64 {t}, {begin}')}, {width}")
        from_here = self.put(f"add i64 {first}, {before}")
        to = self.put(f"add i64 {from_here}, {width}")

        def term(k: str, values: list[str]) -> list[str]:
            x, y = self.load("%w", self.number("%left", k)), self.load("%w", self.number("%right", k))
            result = [self.minus_product(values[0], x, y)]
            if with_sizes:
                size = self.absolute(self.put(f"fmul {self.type} {x}, {y}"))
                result.append(self.put(f"fadd {self.type} {values[1]}, {size}"))
            return result

        zero = self.constant(0.0)
        carried = [(self.type, start), *([(self.type, zero)] if with_sizes else [])]
        values = loop(self, from_here, to, carried, term)
        return values[0], values[-1]

    def _dense_factor(self) -> None:
        """Gaussian elimination of a full matrix %m, row by row, in place."""
        self.lines += [f"define internal void @dense_factor({DENSE}) nounwind {{", "entry:"]

        def place(i: str, j: str) -> str:
            return self.put(f"add i64 {self.put(f'mul i64 {i}, %size')}, {j}")

        def column(j: str, _: list[str]) -> list[str]:
            def size_of(t: str, values: list[str]) -> list[str]:
                product = self.put(f"fmul {self.type} {self.load('%m', place(j, t))}, {self.load('%m', place(t, j))}")
                return [self.put(f"fadd {self.type} {values[0]}, {self.absolute(product)}")]

            (subtracted,) = loop(self, "0", j, [(self.type, self.constant(0.0))], size_of)
            after = self.put(f"add i64 {j}, 1")
            count = self.put(f"uitofp i64 {after} to {self.kind}")
            bound = self.spread(self.put(f"fmul {self.kind} {count}, {EPSILON[self.kind]:.20e}"))
            pivot, sign = self.load("%m", place(j, j)), self.known("%signs", j)
            inverse, bad = self.pivot(pivot, subtracted, bound, sign, self.type)
            self.store("%inverse", j, inverse)
            self.note(bad)

            def row(i: str, _: list[str]) -> list[str]:
                factor = self.put(f"fmul {self.type} {self.load('%m', place(i, j))}, {inverse}")
                self.store("%m", place(i, j), factor)

                def entry(k: str, _: list[str]) -> list[str]:
                    there = place(i, k)
                    value = self.minus_product(self.load("%m", there), factor, self.load("%m", place(j, k)))
                    self.store("%m", there, value)
                    return []

                return loop(self, after, "%size", [], entry)

            return loop(self, after, "%size", [], row)

        loop(self, "0", "%size", [], column)
        self.lines += ["  ret void", "}"]

    def _dense_solve(self) -> None:
        """Substitution in both triangles, in place of the right side %x."""
        self.lines += [f"define internal void @dense_solve({DENSE}) nounwind {{", "entry:"]

        def minus_row(i: str, begin: str, end: str) -> str:
            def term(j: str, values: list[str]) -> list[str]:
                place = self.put(f"add i64 {self.put(f'mul i64 {i}, %size')}, {j}")
                return [self.minus_product(values[0], self.load("%m", place), self.load("%x", j))]

            return loop(self, begin, end, [(self.type, self.load("%x", i))], term)[0]

        def forward(i: str, _: list[str]) -> list[str]:
            self.store("%x", i, minus_row(i, "0", i))
            return []

        def backward(t: str, _: list[str]) -> list[str]:
            i = self.put(f"sub i64 {self.put('sub i64 %size, 1')}, {t}")
            value = minus_row(i, self.put(f"add i64 {i}, 1"), "%size")
            self.store("%x", i, self.put(f"fmul {self.type} {value}, {self.load('%inverse', i)}"))
            return []

        loop(self, "0", "%size", [], forward)
        loop(self, "0", "%size", [], backward)
        self.lines += ["  ret void", "}"]
