"""Newton's method of an array program as LLVM IR."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from holonax.compiler.arrays.program import ROUND
from holonax.compiler.arrays.sharing import Meetings
from holonax.compiler.arrays.solve import NOT_SOLVED, Solve
from holonax.compiler.arrays.statements import (
    ArrayLoop,
    Iterations,
    RoundStatements,
    Statement,
    Store,
    without_largest,
)
from holonax.compiler.arrays.values import Ref
from holonax.engines.llvm.array_loops import LoopEmitter
from holonax.numerics.tape_runs import ONE, ZERO

ITERATIONS = 3
"""That equations usually take."""


class NewtonEmitter(LoopEmitter):
    """Writes the solution of equations; numbers of `kind` are those of the program."""

    kind: str

    @abstractmethod
    def statements(self, statements: list[Statement]) -> None:
        """Loops, reductions and equations, in order."""

    @abstractmethod
    def own(self, solve: Solve, what: str, size: int) -> str:
        """Memory that the solution of equations needs."""

    def write_iterations(self, statement: Iterations) -> None:
        """The loop: paths that are solved are done, the others are updated."""
        solve, lines, w = statement.solve, self.lines, self.paths
        byte, truth = f"<{w} x i8>", f"<{w} x i1>"
        self.copy(solve.unknowns, solve.guess)
        active, bad, lost, counts = (self.own(solve, what, 1) for what in ("active", "bad", "lost", "counts"))
        self._begin(solve, active, lost, counts)
        if statement.first is not None:
            self._round(statement.first, solve, active, bad, counts)
            self.alone(lambda: self._note_lost(solve, active, lost))
        self.count += 1
        label = f"newton{self.count}"
        lines += [f"  br label %{label}.entry", f"{label}.entry:", f"  br label %{label}", f"{label}:"]
        head, taken = len(lines), len(statement.rounds) - 1
        once, self.often = self.often, self.often * ITERATIONS
        judge, late = without_largest(statement, self.part.stored)
        self.meet()
        self.statements(judge)
        self._judge(solve, active)
        self.meet()
        some = self._any(self.put(f"trunc {byte} {self.put(f'load {byte}, ptr {active}, align 1')} to {truth}"))
        few = self.put(f"icmp slt i64 %{label}.round, {solve.most}")
        lines.append(f"  br i1 {self.put(f'and i1 {some}, {few}')}, label %{label}.go, label %{label}.end")
        lines.append(f"{label}.go:")
        self._round(statement.later, solve, active, bad, counts)
        lines += [f"  br label %{label}.back", f"{label}.back:", f"  %{label}.next = add i64 %{label}.round, 1"]
        lines += [f"  br label %{label}", f"{label}.end:"]
        lines.insert(head, f"  %{label}.round = phi i64 [ {taken}, %{label}.entry ], [ %{label}.next, %{label}.back ]")
        self.often, self.pending = once, Meetings()  # all have met before they left
        self.statements(late)
        self._results(statement, lost, counts)

    def _begin(self, solve: Solve, active: str, lost: str, counts: str) -> None:
        """Which paths take part."""
        byte = f"<{self.paths} x i8>"

        def begin() -> None:
            alive = self._single(solve.alive, byte)
            self.lines.append(f"  store {byte} {alive}, ptr {active}, align 1")
            self.lines.append(f"  store {byte} zeroinitializer, ptr {lost}, align 1")
            self.lines.append(f"  store <{self.paths} x {self.kind}> zeroinitializer, ptr {counts}, align 8")

        self.order(self.read_alone(solve.alive), [])
        self.alone(begin)

    def _note_lost(self, solve: Solve, active: str, lost: str) -> None:
        """Paths that the first round could not move: whatever their residuals are, their motions are not solved for."""
        byte = f"<{self.paths} x i8>"
        alive, moved = self._single(solve.alive, byte), self.put(f"load {byte}, ptr {active}, align 1")
        left = self.put(f"and {byte} {alive}, {self.put(f'xor {byte} {moved}, splat (i8 1)')}")
        self.lines.append(f"  store {byte} {left}, ptr {lost}, align 1")

    def _judge(self, solve: Solve, active: str) -> None:
        """Which paths go on."""
        byte = f"<{self.paths} x i8>"

        def judge() -> None:
            unsolved = self._single(solve.unsolved, byte)
            going = self.put(f"and {byte} {self.put(f'load {byte}, ptr {active}, align 1')}, {unsolved}")
            self.lines.append(f"  store {byte} {going}, ptr {active}, align 1")

        self.order(self.read_alone(solve.unsolved), [])
        self.alone(judge)

    def _round(self, round_: RoundStatements, solve: Solve, active: str, bad: str, counts: str) -> None:
        """Linear equations, their solution, and what comes of it."""
        self.statements(round_.improve)
        self.meet()  # also for those who have yet to read what is active
        self.alone(lambda: self._linear(solve, active, bad, counts))
        self.meet()
        self.statements(round_.update)
        for target, places, value in round_.updates:
            self.write_loop(ArrayLoop(len(places), [Store(target, places, value)]))

    def _single(self, ref: Ref, byte: str) -> str:
        """A truth value of each path, as bytes."""
        place = int(ref.table.reshape(-1)[0])
        there = self.put(f"getelementptr i8, ptr {self.pointer(ref.array)}, i64 {place * self.paths}")
        return self.put(f"load {byte}, ptr {there}, align 1")

    def _any(self, truth: str) -> str:
        w = self.paths
        if w == 1:
            return self.put(f"extractelement <1 x i1> {truth}, i64 0")
        function = f"@llvm.vector.reduce.or.v{w}i1"
        self.intrinsics.add(f"declare i1 {function}(<{w} x i1>)")
        return self.put(f"call i1 {function}(<{w} x i1> {truth})")

    def _linear(self, solve: Solve, active: str, bad: str, counts: str) -> None:
        """Factorise and substitute; paths with a bad pivot do not move."""
        tape, w, kind = solve.tape, self.paths, self.kind
        byte, truth, vector = f"<{w} x i8>", f"<{w} x i1>", f"<{w} x {kind}>"
        self.lines.append(f"  store {byte} zeroinitializer, ptr {bad}, align 1")
        if tape.size:
            self._eliminate(solve, bad)
        lost = self.put(f"load {byte}, ptr {bad}, align 1")
        going = self.put(f"load {byte}, ptr {active}, align 1")
        sound = self.put(f"and {byte} {going}, {self.put(f'xor {byte} {lost}, splat (i8 1)')}")
        moves = self.put(f"trunc {byte} {sound} to {truth}")
        self.lines.append(f"  store {byte} {sound}, ptr {active}, align 1")
        self.lines.append(f"  store {byte} {sound}, ptr {self.pointer(solve.moves)}, align 1")
        count = self.put(f"load {vector}, ptr {counts}, align 8")
        more = self.put(f"uitofp {truth} {moves} to {vector}")
        self.lines.append(f"  store {vector} {self.put(f'fadd {vector} {count}, {more}')}, ptr {counts}, align 8")

    def _eliminate(self, solve: Solve, bad: str) -> None:
        """Work through the tapes, with a dense matrix at the end."""
        tape, w, kind = solve.tape, self.paths, self.kind
        vector, workspace = f"<{w} x {kind}>", self.pointer(solve.workspace)

        def at(place: int) -> str:
            return self.put(f"getelementptr {kind}, ptr {workspace}, i64 {place * w}")

        for place, number in ((ZERO, 0.0), (ONE, 1.0)):
            self.lines.append(f"  store {vector} splat ({kind} {number}), ptr {at(place)}, align 8")
        real = np.float64 if kind == "double" else np.float32
        signs, bounds = (np.append(x, np.zeros(ROUND)) for x in (solve.signs, (tape.terms + 1) * np.finfo(real).eps))
        tables = [self.table(x.astype(real)) for x in (signs, bounds)]
        begin = tape.size - tape.tail
        own = self.put(f"getelementptr {kind}, ptr {tables[0]}, i64 {begin}")
        arguments = f"ptr {at(tape.dense)}, i64 {tape.tail}, ptr {at(tape.inverse + begin)}, ptr {own}, ptr {bad}, "
        arguments += f"ptr {at(tape.rest)}"
        for part, dense in ((tape.factor, "dense_factor"), (tape.forward, "dense_solve"), (tape.backward, None)):
            lists = [self.table(x) for x in (part.out, part.start, part.scale, part.left, part.right)]
            whole = [f"ptr {workspace}, ptr {self.table(part.runs)}, i64 {len(part.runs)}"]
            whole += [f"ptr {x}" for x in lists] + [f"i64 {tape.inverse}"] + [f"ptr {x}" for x in (*tables, bad)]
            self.lines.append(f"  call void @sweep({', '.join(whole)})")
            if tape.tail and dense:
                self.lines.append(f"  call void @{dense}({arguments})")

    def _results(self, statement: Iterations, lost: str, counts: str) -> None:
        """What came of it: a path that is not done, or was lost, is not solved."""
        solve, w, kind = statement.solve, self.paths, self.kind
        byte, truth, vector = f"<{w} x i8>", f"<{w} x i1>", f"<{w} x {kind}>"
        largest = int(solve.largest.table.reshape(-1)[0])

        def value(what: str) -> str:
            if what == "status":
                never = self.put(f"load {byte}, ptr {lost}, align 1")
                either = self.put(f"or {byte} {never}, {self._single(solve.unsolved, byte)}")
                unsolved = self.put(f"trunc {byte} {either} to {truth}")
                number = f"splat ({kind} {NOT_SOLVED:.1f})"
                return self.put(f"select {truth} {unsolved}, {vector} {number}, {vector} zeroinitializer")
            if what == "iterations":
                return self.put(f"load {vector}, ptr {counts}, align 8")
            place = self.put(f"getelementptr {kind}, ptr {self.pointer(solve.largest.array)}, i64 {largest * w}")
            return self.put(f"load {vector}, ptr {place}, align 8")

        single = [found for found in statement.found if found.what != "unknowns"]  # these are where they were

        def results() -> None:
            for found in single:
                self.lines.append(f"  store {vector} {value(found.what)}, ptr {self.pointer(found)}, align 8")

        reads = [*self.read_alone(solve.unsolved), *self.read_alone(solve.largest)]
        self.order(reads, [x for found in single for x in self.touch(found, None)])
        self.alone(results)
