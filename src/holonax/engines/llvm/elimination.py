"""Sparse elimination as LLVM IR: one function that works through the lists of `holonax.numerics.tape`, and a dense one.

All numbers are those of one path, or of a vector of paths.
"""

from __future__ import annotations

from holonax.engines.llvm.path_functions import PathFunctions
from holonax.engines.llvm.structured import loop

EPSILON = {"double": 2.0**-52, "float": 2.0**-23}

SWEEP = "ptr %out, ptr %a, ptr %l, ptr %r, ptr %scale, ptr %runs, i64 %number, ptr %o, ptr %s, ptr %c, "
SWEEP += "ptr %left, ptr %right, ptr %signs, ptr %bad"
DENSE = "ptr %m, i64 %size, ptr %inverse, ptr %signs, ptr %bad, ptr %x"


class EliminationFunctions(PathFunctions):
    """The functions of one module."""

    def text(self) -> list[str]:
        """All functions."""
        self._sweep()
        self._dense_factor()
        self._dense_solve()
        return self.lines

    # Pieces of syntax.

    def number(self, table: str, place: str) -> str:
        """A number of a list of places."""
        there = self.put(f"getelementptr i32, ptr {table}, i64 {place}")
        return self.put(f"sext i32 {self.put(f'load i32, ptr {there}')} to i64")

    def field(self, run: str, which: int) -> str:
        """A number of a run."""
        place = self.put(f"add i64 {self.put(f'mul i64 {run}, 5')}, {which}")
        return self.put(f"load i64, ptr {self.put(f'getelementptr i64, ptr %runs, i64 {place}')}")

    # Pivots.

    def pivot(self, place: str, value: str, subtracted: str, terms: str, inverse: str) -> None:
        """Invert a pivot, and note the paths for which it is round-off or has the wrong sign."""
        size = self.absolute(value)
        count = self.put(f"uitofp i64 {self.put(f'add i64 {terms}, 1')} to {self.kind}")
        bound = self.spread(self.put(f"fmul {self.kind} {count}, {EPSILON[self.kind]:.20e}"))
        total = self.put(f"fadd {self.type} {size}, {subtracted}")
        lost = self.put(f"fcmp ule {self.type} {size}, {self.put(f'fmul {self.type} {bound}, {total}')}")
        sign = self.put(f"load {self.kind}, ptr {self.put(f'getelementptr {self.kind}, ptr %signs, i64 {place}')}")
        signed = self.put(f"fmul {self.type} {self.spread(sign)}, {value}")
        wrong = self.put(f"fcmp ult {self.type} {signed}, {self.constant(0.0)}")
        either = self.put(f"or {self.truth} {lost}, {wrong}")
        noted = self.put(f"zext {self.truth} {either} to {self.byte}")
        old = self.put(f"load {self.byte}, ptr %bad, align 1")
        self.lines.append(f"  store {self.byte} {self.put(f'or {self.byte} {old}, {noted}')}, ptr %bad, align 1")
        self.store(inverse, place, self.put(f"fdiv {self.type} {self.constant(1.0)}, {value}"))

    # Functions.

    def _sweep(self) -> None:
        """Work through runs of sums."""
        self.lines += [f"define internal void @sweep({SWEEP}) nounwind {{", "entry:"]

        def run(i: str, _: list[str]) -> list[str]:
            begin, end, width, first, kind = (self.field(i, which) for which in range(5))

            def factor(t: str, _: list[str]) -> list[str]:
                total = self._sum(t, begin, width, first, with_sizes=False)[0]
                scale = self.load("%scale", self.number("%c", t))
                self.store("%out", self.number("%o", t), self.put(f"fmul {self.type} {total}, {scale}"))
                return []

            def pivot(t: str, _: list[str]) -> list[str]:
                total, subtracted = self._sum(t, begin, width, first, with_sizes=True)
                self.pivot(self.number("%o", t), total, subtracted, width, "%scale")
                return []

            is_pivot = self.put(f"icmp eq i64 {kind}, 1")
            none = self.put(f"select i1 {is_pivot}, i64 {begin}, i64 {end}")
            loop(self, begin, none, [], factor)
            some = self.put(f"select i1 {is_pivot}, i64 {end}, i64 {begin}")
            loop(self, begin, some, [], pivot)
            return []

        loop(self, "0", "%number", [], run)
        self.lines += ["  ret void", "}"]

    def _sum(self, t: str, begin: str, width: str, first: str, with_sizes: bool) -> tuple[str, str]:
        """What sum t begins with, less its terms; and the sizes of these."""
        start = self.load("%a", self.number("%s", t))
        before = self.put(f"mul i64 {self.put(f'sub i64 {t}, {begin}')}, {width}")
        from_here = self.put(f"add i64 {first}, {before}")
        to = self.put(f"add i64 {from_here}, {width}")

        def term(k: str, values: list[str]) -> list[str]:
            x, y = self.load("%l", self.number("%left", k)), self.load("%r", self.number("%right", k))
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
            self.pivot(j, self.load("%m", place(j, j)), subtracted, j, "%inverse")
            inverse, after = self.load("%inverse", j), self.put(f"add i64 {j}, 1")

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
