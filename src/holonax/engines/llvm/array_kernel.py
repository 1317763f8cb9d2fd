"""The kernel of an array program as LLVM IR: memory, the loop over steps, and what is recorded."""

from __future__ import annotations

from typing import final

from holonax.compiler.arrays.program import SLOT, ArrayProgram, consecutive
from holonax.compiler.arrays.solve import Solve, home
from holonax.compiler.arrays.statements import ArrayLoop, Iterations, MatrixLoops, Reduction, Scatter, Statement
from holonax.compiler.arrays.values import Array
from holonax.engines.llvm.array_memory import BYTES, memory_type
from holonax.engines.llvm.array_newton import NewtonEmitter
from holonax.engines.llvm.elimination import EliminationFunctions
from holonax.engines.llvm.matrices import MatrixFunctions
from holonax.engines.llvm.meeting import meeting_function
from holonax.engines.llvm.structured import loop
from holonax.methods.path import IN_DOUBT

KERNEL = "advance"
ARGUMENTS = "ptr %track, ptr %other, ptr %fixed, ptr %frame, ptr %tables, ptr %buffer, "
ARGUMENTS += "i64 %first, i64 %stop, i64 %stride, i64 %offset, ptr %meeting, i64 %thread, i64 %threads"


@final
class ArrayKernel(NewtonEmitter):
    """Writes the module: `advance(track, other, fixed, frame, tables, buffer, first, stop, stride, offset, ...)`.

    Takes the paths of a vector through the steps `first`..`stop - 1`, from `track` to `other` and back, writing q and p
    to the next row of the buffer (rows, 2n, paths) at multiples of `stride`.  Ends early after a step that some path
    has to take again.  Returns the number of the step that would be next.

    A `shared` kernel is called by several threads at the same time, with the place where they meet, the number of this
    thread and that of all; these arguments mean nothing to another one.
    """

    def __init__(self, program: ArrayProgram, paths: int, shared: bool) -> None:
        super().__init__(paths, shared)
        self.arrays = program
        self.track, self.track_size = consecutive([*program.track, *program.kept])
        self.now, self.part = "%track", program.begin  # where the track is, and what is written
        self.fixed, self.fixed_size = consecutive(list(program.fixed.values()))
        self.results: dict[Array, Array] = dict(zip(program.results, program.track, strict=True))
        self.results |= {end: array for array, end in program.kept.items()}
        self.extra = program.frame_size  # of the frame, for what elimination needs
        self.solver_places: dict[tuple[Solve, str], int] = {}
        self.kind = memory_type(program.dtype)

    @property
    def frame_size(self) -> int:
        """Numbers per path in the frame."""
        return self.extra

    def text(self) -> str:
        """The module."""
        self.lines += [f"define i64 @{KERNEL}({ARGUMENTS}) nounwind {{", "entry:"]
        head = len(self.lines)
        self._steps()
        loads = []
        for i in range(len(self.data)):
            loads += [f"  %table{i}.at = getelementptr ptr, ptr %tables, i64 {i}"]
            loads += [f"  %table{i} = load ptr, ptr %table{i}.at"]
        self.lines[head:head] = loads
        functions = EliminationFunctions(self.kind, self.paths), MatrixFunctions(self.kind, self.paths)
        texts = [line for own in functions for line in own.text()]
        if self.shared:
            texts += meeting_function()
        declared = self.intrinsics.union(*(own.declared for own in functions))
        return "\n".join([*sorted(declared), *texts, *self.lines])

    # Memory.

    def place(self, array: Array) -> tuple[str, int]:
        """The memory that an array is in, and where, in numbers per path."""
        if array in self.results:
            return "%next", self.track[self.results[array]]
        if array in self.track:
            return self.now, self.track[array]
        if array in self.fixed:
            return "%fixed", self.fixed[array]
        return "%frame", self.part.frame[home(array)]

    def pointer(self, array: Array) -> str:
        """Where an array is."""
        return self.at(*self.place(array))

    def at(self, base: str, place: int) -> str:
        """An address, by numbers per path."""
        return self.put(f"getelementptr i8, ptr {base}, i64 {place * SLOT * self.paths}")

    def own(self, solve: Solve, what: str, size: int) -> str:
        """Memory that the solution of equations needs."""
        key = (solve, what)
        if key not in self.solver_places:
            self.solver_places[key] = self.extra
            self.extra += -(-size // 8) * 8 + 8
        return self.at("%frame", self.solver_places[key])

    # Steps.

    def _steps(self) -> None:
        lines, n = self.lines, self.arrays.n
        lines += ["  %quotient = sdiv i64 %first, %stride", "  %quotient.next = add i64 %quotient, 1"]
        lines += ["  %begin.due = mul i64 %quotient.next, %stride"]
        self.statements(self.part.statements)
        self.meet()
        self.now, self.part = "%now", self.arrays.step
        lines += ["  br label %before", "before:", "  br label %step"]
        lines += ["step:", "  %number = phi i64 [ %first, %before ], [ %number.next, %step.end ]"]
        lines += ["  %now = phi ptr [ %track, %before ], [ %next, %step.end ]"]
        lines += ["  %next = phi ptr [ %other, %before ], [ %now, %step.end ]"]
        lines += ["  %row = phi i64 [ 0, %before ], [ %row.next, %step.end ]"]
        lines += ["  %due = phi i64 [ %begin.due, %before ], [ %due.next, %step.end ]"]
        self._number_the_step()
        self.statements(self.part.statements)
        self.meet()
        doubt = self._any_in_doubt()
        lines += ["  br label %step.done", "step.done:", "  %number.next = add i64 %number, 1"]
        lines += ["  %record = icmp eq i64 %number.next, %due", "  br i1 %record, label %write, label %step.end"]
        lines += ["write:"]
        row = self.put(f"mul i64 %row, {2 * n}")
        for k, array in enumerate(self.arrays.track[:2]):
            source = self.at("%next", self.track[array])
            begin = self.put(f"add i64 {row}, {k * n}")
            place = self.put(f"mul i64 {begin}, {self.paths}")
            self._copy(source, self.put(f"getelementptr {self.kind}, ptr %buffer, i64 {place}"), n)
        lines += ["  %row.more = add i64 %row, 1", "  %due.more = add i64 %due, %stride", "  br label %written"]
        lines += ["written:", "  br label %step.end"]
        lines += ["step.end:", "  %row.next = phi i64 [ %row, %step.done ], [ %row.more, %written ]"]
        lines += ["  %due.next = phi i64 [ %due, %step.done ], [ %due.more, %written ]"]
        lines += ["  %left = icmp slt i64 %number.next, %stop", f"  %clear = xor i1 {doubt}, true"]
        lines += ["  %more = and i1 %left, %clear", "  br i1 %more, label %step, label %exit"]
        lines += ["exit:", "  ret i64 %number.next", "}"]

    def _number_the_step(self) -> None:
        """As far as noise is concerned."""
        step = self.arrays.fixed["step"]

        def store() -> None:
            number = self.put(f"trunc i64 {self.put('add i64 %number, %offset')} to i32")
            for lane in range(self.paths):
                there = self.put(f"getelementptr i32, ptr {self.pointer(step)}, i64 {lane}")
                self.lines.append(f"  store i32 {number}, ptr {there}")

        self.order([], self.touch(step, None))
        self.alone(store)

    def _copy(self, source: str, target: str, size: int) -> None:
        """So many numbers of each path; a call of the C library would not be close to the kernel."""
        vector = f"<{self.paths} x {self.kind}>"

        def one(i: str, _: list[str]) -> list[str]:
            place = self.put(f"mul i64 {i}, {self.paths}")
            here, there = (self.put(f"getelementptr {self.kind}, ptr {x}, i64 {place}") for x in (source, target))
            value = self.put(f"load {vector}, ptr {here}, align {BYTES[self.kind]}")
            self.lines.append(f"  store {vector} {value}, ptr {there}, align {BYTES[self.kind]}")
            return []

        loop(self, *self.slice_of(size), [], one)

    def _any_in_doubt(self) -> str:
        """Whether some path has to take the step again."""
        status = self.arrays.track[3]
        pointer = self.at("%next", self.track[status])
        doubt = "false"
        for lane in range(self.paths):
            value = self.put(f"load i32, ptr {self.put(f'getelementptr i32, ptr {pointer}, i64 {lane}')}")
            doubt = self.put(f"or i1 {doubt}, {self.put(f'icmp eq i32 {value}, {IN_DOUBT}')}")
        return doubt

    # Statements.

    def statements(self, statements: list[Statement]) -> None:
        """Loops, reductions and equations, in order."""
        for statement in statements:
            match statement:
                case ArrayLoop():
                    self.write_loop(statement)
                case Reduction():
                    self.write_reduction(statement)
                case Scatter():
                    self.write_scatter(statement)
                case MatrixLoops():
                    self.write_matrices(statement)
                case Iterations():
                    self.write_iterations(statement)
