"""Stretches of a sparse elimination (`holonax.numerics.tape`) as LLVM IR: eight sums of one path at a time.

The places of consecutive sums are at most two apart.  So the numbers of eight sums are among sixteen consecutive ones,
which are two vectors, and all sums of a stretch take the same lanes of them.  Where a processor cannot choose lanes by
numbers that it learns at run time, numbers are gathered.  Sums, products and their order are those of single sums, so
that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holonax.engines.llvm.machine import can_permute
from holonax.engines.llvm.path_functions import PathFunctions
from holonax.engines.llvm.structured import choose, loop, when
from holonax.numerics.tape_runs import DIAGONAL, FURTHEST, PIVOTS, SUMS

LANES = 8
WIDE, NUMBERS = f"<{LANES} x i64>", ", ".join(f"i64 {i}" for i in range(LANES))
HELD = 2
"""Terms whose places are looked up before the loop over sums; where there are more, they are looked up on the way."""


class Course(NamedTuple):
    """Places at equal distances: the first one, the distance, and how far the others of a vector are from it."""

    first: str
    step: str
    lanes: str


class StretchFunctions(PathFunctions):
    """Writes the code for stretches of numbers of a workspace `%w`."""

    @property
    def many(self) -> str:
        """The type of a vector of sums."""
        return f"<{LANES} x {self.kind}>"

    def number(self, table: str, place: str) -> str:
        """A number of a list of places."""
        there = self.put(f"getelementptr i32, ptr {table}, i64 {place}")
        return self.put(f"sext i32 {self.put(f'load i32, ptr {there}')} to i64")

    def pivot(self, value: str, subtracted: str, bound: str, sign: str, type: str) -> tuple[str, str]:
        """The inverse of a pivot, and whether it is round-off or has the wrong sign."""
        size = self.call("fabs", value, type=type)
        total = self.put(f"fadd {type} {size}, {subtracted}")
        lost = self.put(f"fcmp ule {type} {size}, {self.put(f'fmul {type} {bound}, {total}')}")
        signed = self.put(f"fmul {type} {sign}, {value}")
        wrong = self.put(f"fcmp ult {type} {signed}, {self.constant(0.0, type)}")
        truth = f"{type.split(' x ')[0]} x i1>" if type.startswith("<") else "i1"
        return self.put(f"fdiv {type} {self.constant(1.0, type)}, {value}"), self.put(f"or {truth} {lost}, {wrong}")

    def stretch(self, begin: str, end: str, width: str, first: str, what: str, beside: str) -> None:
        """The sums of a run whose places go on in equal steps."""
        after = self.put(f"add i64 {begin}, 1")
        start, scale, out = (self._course(table, begin, after) for table in ("%s", "%c", "%o"))
        number = self.put(f"sub i64 {end}, {begin}")
        more = HELD + 1
        shown = self.put(f"select i1 {self.put(f'icmp slt i64 {width}, {more}')}, i64 {width}, i64 {more}")
        case = self.put(f"add i64 {self.put(f'mul i64 {what}, {more + 1}')}, {shown}")
        cases: dict[int, Callable[[], None]] = {}
        for kind in (SUMS, DIAGONAL):
            for held in range(more + 1):
                cases[kind * (more + 1) + held] = partial(
                    self._sums, kind, start, scale, out, number, width, first, beside, held if held < more else None
                )
        cases[PIVOTS * (more + 1)] = partial(self._pivots, start, scale, out, number)
        choose(self, case, cases)

    def _course(self, table: str, one: str, two: str) -> Course:
        """The places that begin with two numbers of a list."""
        first = self.number(table, one)
        step = self.put(f"sub i64 {self.number(table, two)}, {first}")
        lanes = ", ".join(f"i64 {i * k}" for k in range(FURTHEST + 1) for i in range(LANES))
        number = (FURTHEST + 1) * LANES
        self.declared.add(f"@lanes = internal constant [{number} x i64] [{lanes}], align 64")
        there = self.put(f"getelementptr {WIDE}, ptr @lanes, i64 {step}")
        return Course(first, step, self.put(f"load {WIDE}, ptr {there}, align 64"))

    def _all(self, scalar: str) -> str:
        """A whole number in every lane."""
        one = self.put(f"insertelement {WIDE} poison, i64 {scalar}, i64 0")
        return self.put(f"shufflevector {WIDE} {one}, {WIDE} poison, <{LANES} x i32> zeroinitializer")

    def _read(self, course: Course, t: str) -> str:
        """The numbers of the sums from the t-th on."""
        place = self.put(f"add i64 {course.first}, {self.put(f'mul i64 {t}, {course.step}')}")
        there = self.put(f"getelementptr {self.kind}, ptr %w, i64 {place}")
        if self.kind == "double" and can_permute():
            low, high = self._two_vectors(there)
            name = "@llvm.x86.avx512.vpermi2var.pd.512"
            self.declared.add(f"declare {self.many} {name}({self.many}, {WIDE}, {self.many})")
            return self.put(f"call {self.many} {name}({self.many} {low}, {WIDE} {course.lanes}, {self.many} {high})")
        pointers = self.put(f"getelementptr {self.kind}, ptr {there}, {WIDE} {course.lanes}")
        short, mask = {"double": "f64", "float": "f32"}[self.kind], f"<{LANES} x i1>"
        name = f"@llvm.masked.gather.v{LANES}{short}.v{LANES}p0"
        self.declared.add(f"declare {self.many} {name}(<{LANES} x ptr>, i32, {mask}, {self.many})")
        arguments = f"<{LANES} x ptr> {pointers}, i32 {self.align}, {mask} splat (i1 true), {self.many} poison"
        return self.put(f"call {self.many} {name}({arguments})")

    def _two_vectors(self, there: str) -> tuple[str, str]:
        """Sixteen consecutive numbers."""
        behind = self.put(f"getelementptr {self.kind}, ptr {there}, i64 {LANES}")
        low, high = (self.put(f"load {self.many}, ptr {x}, align {self.align}") for x in (there, behind))
        return low, high

    def _inside(self, t: str, number: str) -> str:
        """Which lanes are sums of the stretch."""
        lanes = self.put(f"add {WIDE} {self._all(t)}, <{NUMBERS}>")
        return self.put(f"icmp slt {WIDE} {lanes}, {self._all(number)}")

    def _write(self, course: Course, t: str, value: str, inside: str, further: str = "0") -> None:
        """Write numbers, one or two places apart; what is in between stays as it is."""
        place = self.put(f"add i64 {course.first}, {self.put(f'mul i64 {t}, {course.step}')}")
        there = self.put(f"getelementptr {self.kind}, ptr %w, i64 {self.put(f'add i64 {place}, {further}')}")
        short, mask = {"double": "f64", "float": "f32"}[self.kind], f"<{LANES} x i1>"
        name = f"@llvm.masked.store.v{LANES}{short}.p0"
        self.declared.add(f"declare void {name}({self.many}, ptr, i32, {mask})")

        def one_apart() -> None:
            arguments = f"{self.many} {value}, ptr {there}, i32 {self.align}, {mask} {inside}"
            self.lines.append(f"  call void {name}({arguments})")

        def two_apart() -> None:
            vectors = self._two_vectors(there)
            order = ", ".join(f"i32 {2 * i}" for i in range(LANES))
            old = self.put(
                f"shufflevector {self.many} {vectors[0]}, {self.many} {vectors[1]}, <{LANES} x i32> <{order}>"
            )
            new = self.put(f"select {mask} {inside}, {self.many} {value}, {self.many} {old}")
            for half, vector in enumerate(vectors):
                lanes = (LANES + half * LANES // 2 + i // 2 if i % 2 == 0 else i for i in range(LANES))
                order = ", ".join(f"i32 {lane}" for lane in lanes)
                mixed = self.put(f"shufflevector {self.many} {vector}, {self.many} {new}, <{LANES} x i32> <{order}>")
                at = self.put(f"getelementptr {self.kind}, ptr {there}, i64 {half * LANES}")
                self.lines.append(f"  store {self.many} {mixed}, ptr {at}, align {self.align}")

        when(self, self.put(f"icmp eq i64 {course.step}, 1"), one_apart)
        when(self, self.put(f"icmp eq i64 {course.step}, 2"), two_apart)

    def _pivots(self, start: Course, scale: Course, out: Course, number: str) -> None:
        """Inverse pivots; paths are noted for which one is round-off or has the wrong sign."""
        which = self.put(f"sub i64 {out.first}, %inverse")

        def pivots(t: str, _: list[str]) -> list[str]:
            place = self.put(f"add i64 {which}, {t}")
            bound, sign = (
                self.put(
                    f"load {self.many}, ptr {self.put(f'getelementptr {self.kind}, ptr {table}, i64 {place}')}, "
                    f"align {self.align}"
                )
                for table in ("%bounds", "%signs")
            )
            inside = self._inside(t, number)
            inverse, bad = self.pivot(self._read(start, t), self._read(scale, t), bound, sign, self.many)
            self._write(out, t, inverse, inside)
            seen = self.put(f"and <{LANES} x i1> {bad}, {inside}")
            function = f"@llvm.vector.reduce.or.v{LANES}i1"
            self.declared.add(f"declare i1 {function}(<{LANES} x i1>)")
            self.note(self.put(f"call i1 {function}(<{LANES} x i1> {seen})"))
            return []

        loop(self, "0", number, [], pivots, step=LANES)

    def note(self, bad: str) -> None:
        """Note that a pivot is bad, for the paths for which it is."""
        noted = self.put(f"zext {self.truth} {bad} to {self.byte}")
        old = self.put(f"load {self.byte}, ptr %bad, align 1")
        self.lines.append(f"  store {self.byte} {self.put(f'or {self.byte} {old}, {noted}')}, ptr %bad, align 1")

    def _sums(
        self, what: int, start: Course, scale: Course, out: Course, number: str, width: str, first: str, beside: str,
        held: int | None,
    ) -> None:  # fmt: skip
        """Sums of so many terms, or of any number."""
        courses = [self._term(str(k), width, first) for k in range(held or 0)]

        def sums(t: str, _: list[str]) -> list[str]:
            values = [self._read(start, t), *([self.constant(0.0, self.many)] if what == DIAGONAL else [])]
            if held is None:
                carried = [(self.many, value) for value in values]
                values = loop(
                    self, "0", width, carried, lambda k, values: self._minus(values, t, *self._term(k, width, first))
                )
            for left, right in courses:
                values = self._minus(values, t, left, right)
            inside, factor = self._inside(t, number), self._read(scale, t)
            if what == DIAGONAL:
                self._write(out, t, values[0], inside)
                self._write(out, t, self.put(f"fadd {self.many} {factor}, {values[1]}"), inside, beside)
            else:
                self._write(out, t, self.put(f"fmul {self.many} {values[0]}, {factor}"), inside)
            return []

        loop(self, "0", number, [], sums, step=LANES)

    def _term(self, k: str, width: str, first: str) -> tuple[Course, Course]:
        """The places of the k-th terms."""
        one = self.put(f"add i64 {first}, {k}")
        two = self.put(f"add i64 {one}, {width}")
        return self._course("%left", one, two), self._course("%right", one, two)

    def _minus(self, values: list[str], t: str, left: Course, right: Course) -> list[str]:
        """Sums less a term each; and the sizes of terms, if these are wanted."""
        x, y = self._read(left, t), self._read(right, t)
        result = [self.minus_product(values[0], x, y, self.many)]
        if len(values) > 1:
            size = self.call("fabs", self.put(f"fmul {self.many} {x}, {y}"), type=self.many)
            result.append(self.put(f"fadd {self.many} {values[1]}, {size}"))
        return result
