"""Newton's method of an array program as CUDA C, by the threads of a block: these agree on every decision."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from holonax.compiler.arrays.loops import MANY
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
from holonax.engines.cuda.array_sweeps import Sweep, SweepWriter
from holonax.engines.cuda.expressions import TYPES
from holonax.numerics.tape_runs import ONE, ZERO


class NewtonWriter(SweepWriter):
    """Writes the solution of equations."""

    real: str

    @abstractmethod
    def statements(self, statements: list[Statement]) -> None:
        """Loops, reductions and equations, in order."""

    def write_iterations(self, statement: Iterations) -> None:
        """The loop: the path is updated until it is solved."""
        solve, lines = statement.solve, self.lines
        self.count += 1
        active, lost, steps, number = (f"{name}{self.count}" for name in ("active", "lost", "steps", "iteration"))
        self.copy(solve.unknowns, solve.guess)
        lines += [f"bool {active} = {self._single(solve.alive)}, {lost} = false;", f"{self.real} {steps} = 0;"]
        self.meet()
        if statement.first is not None:
            lines.append(f"{lost} = {active};")
            self._round(statement.first, solve, active, steps)
            lines.append(f"{lost} = {lost} && !{active};")  # its motions are not solved for, whatever its residuals are
        before, self.weight = self.weight, self.weight * MANY / 2
        judge, late = without_largest(statement, self.part.stored)
        lines.append(f"for (int {number} = {len(statement.rounds) - 1};; ++{number}) {{")
        self.statements(judge)
        unsolved = self._single(solve.unsolved)
        lines.append(f"{active} = {active} && {unsolved};")
        lines.append(f"if (!{active} || {number} >= {solve.most}) break;")
        pending = [*self.read], [*self.written]
        self._round(statement.later, solve, active, steps)
        lines.append("}")
        self.read, self.written = pending  # what was going on where the loop is left
        self.weight = before
        self.statements(late)
        self._results(statement, lost, steps)

    def _round(self, round_: RoundStatements, solve: Solve, active: str, steps: str) -> None:
        """Linear equations, their solution, and what comes of it."""
        self.statements(round_.improve)
        self._linear(solve, active, steps)
        self.statements(round_.update)
        for target, places, value in round_.updates:
            self.write_loop(ArrayLoop(len(places), [Store(target, places, value)]))
        self.meet()

    def _single(self, ref: Ref) -> str:
        """The only number that a reference means."""
        place = ref.table.reshape(-1)[:1]
        self.loaded.add(ref.array)
        self.uniform.add(ref.array)
        self.order(self.access(ref.array, None), [])
        return self.put(ref.array.dtype, self.entry(ref.array, str(int(place[0]))))

    def _linear(self, solve: Solve, active: str, steps: str) -> None:
        """Factorise and substitute; a path with a bad pivot does not move."""
        tape, tail = solve.tape, solve.tape.tail
        lines, moves = self.lines, self.entry(solve.moves, "0")
        self.loaded.add(solve.moves)
        if not tape.size:
            lines += [f"{moves} = {active};", f"{steps} += {active};"]
            return
        self.loaded.add(solve.workspace)
        accesses = self.access(solve.workspace, None)
        self.order(accesses, accesses)
        whole, bad = self.pointer(solve.workspace), f"bad{self.count}"
        real = np.float64 if self.real == "double" else np.float32
        signs = self.table(solve.signs.astype(real), self.real)
        bounds = self.table(((tape.terms + 1) * np.finfo(real).eps).astype(real), self.real)
        sweep = Sweep(whole, tape.inverse, signs, bounds, bad)
        lines += [f"bool {bad} = false;", f"if (thread == 0) {{ {whole}[{ZERO}] = 0; {whole}[{ONE}] = 1; }}"]
        self.meet()
        self.write_sweep(tape.factor, sweep)
        begin = tape.size - tail
        dense = f"{whole} + {tape.dense}, {tail}, {whole} + {tape.inverse + begin}"
        if tail:
            lines.append(f"dense_factorise({dense}, {signs} + {begin}, {whole} + {tape.sizes}, {bad}, thread);")
        self.write_sweep(tape.forward, sweep)
        if tail:
            lines.append(f"dense_substitute({dense}, {whole} + {tape.rest}, thread);")
        self.write_sweep(tape.backward, sweep)
        lines.append(f"{active} = {active} && !some_thread({bad});")
        self.read, self.written = [], []
        lines += [f"{moves} = {active};", f"{steps} += {active};"]

    def _results(self, statement: Iterations, lost: str, steps: str) -> None:
        """What came of it: a path that is not done, or that the first round could not move, is not solved."""
        solve = statement.solve
        unsolved = self._single(solve.unsolved)
        for found in statement.found:
            if found.what == "unknowns" or found in self.memory.dead:
                continue  # they are where the unknowns are, or nobody asks
            if found.what == "status":
                value = f"({unsolved} || {lost} ? {NOT_SOLVED:.1f} : 0.0)"
            else:
                value = steps if found.what == "iterations" else self._single(solve.largest)
            self.lines.append(f"{self.entry(found, '0')} = ({TYPES[found.dtype]}){value};")
