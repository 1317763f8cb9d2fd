"""The kernel of an array program as CUDA C: a block of threads per path, the loop over steps inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from holonax.compiler.arrays.program import SLOT, ArrayProgram, consecutive
from holonax.compiler.arrays.statements import ArrayLoop, Iterations, MatrixLoops, Reduction, Scatter, Statement
from holonax.compiler.arrays.values import Array
from holonax.compiler.ir.graph import Untranslatable
from holonax.engines.cuda.array_loops import WARP
from holonax.engines.cuda.array_memory import SCRATCH, SHARED, Memory
from holonax.engines.cuda.array_newton import NewtonWriter
from holonax.engines.cuda.device import KERNEL
from holonax.engines.cuda.elimination import block_functions
from holonax.engines.cuda.emit import REALS, WHOLE
from holonax.engines.cuda.expressions import HEAD, TYPES
from holonax.methods.path import IN_DOUBT

_ARGUMENTS = (
    f"{{real}} *{REALS}, int *{WHOLE}, const double *parameters, double *scratch, const char *__restrict__ tables, "
    "{real} *rows, long long *next, int *doubts, unsigned key0, unsigned key1, {real} h, "
    "unsigned long long first_path, unsigned paths, long long size, long long apart, long long first, long long stop, "
    "long long stride, long long offset"
)


class Shape(NamedTuple):
    """How a path is spread over the device.

    Attributes:
        threads: of a block, which takes a path.
        blocks: that are to run on a multiprocessor at a time.
    """

    threads: int
    blocks: int


@final
class BlockKernel(NewtonWriter):
    """Writes the source of `advance`, whose arguments are `_ARGUMENTS`.

    A block takes one path after another, from the step that is `next` for it up to `stop`, or to one that is in doubt,
    of which there are `doubts`.  A path's real and whole numbers are rows of two matrices, q and p of recorded steps
    those of `rows` (rows, paths, 2n); its parameters begin `apart` slots after those of the path before.
    """

    def __init__(self, program: ArrayProgram, shape: Shape, memory: Memory) -> None:
        self.parameter_places, self.parameters_size = consecutive(program.parameters)
        super().__init__(memory, self.parameter_places, shape.threads)
        self.program, self.shape, self.real = program, shape, TYPES[program.dtype]
        self.columns = columns_of(program.track)
        self.part = program.begin

    def source(self) -> str:
        """The source of the kernel."""
        body = self._steps()
        real, memory = self.real, self.memory
        registers: list[str] = []
        for array, number in memory.registers.items():
            turns = ("", "n") if array in memory.carried else ("",)
            registers += [f"{TYPES[array.dtype]} s{number}{turn};" for turn in turns]
        bounds = f"__launch_bounds__({self.threads}, {self.shape.blocks})"
        begin = [f'extern "C" __global__ void {bounds} {KERNEL}({_ARGUMENTS.format(real=real)}) {{']
        begin += ["extern __shared__ double S[];", f"double *const E = S + {memory.used[SHARED]};"]
        begin += [
            f"double *const W = scratch + blockIdx.x * {memory.used[SCRATCH]}ll;",
            "const int thread = threadIdx.x;",
        ]
        return "\n".join([HEAD, block_functions(real, self.threads), *begin, *registers, *body, "}"])

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return SLOT * (self.memory.used[SHARED] + self.sums * (self.threads // WARP))

    @property
    def scratch_slots(self) -> int:
        """Global memory of a block."""
        return self.memory.used[SCRATCH]

    def _steps(self) -> list[str]:
        self.lines = lines = []
        sizes = self.memory.turn_size
        lines += ["for (long long own = blockIdx.x; own < size; own += gridDim.x) {"]
        lines += ["long long number = next[own];", "if (number >= stop) continue;"]
        lines += ["const unsigned long long path = first_path + (unsigned)own % paths;"]
        lines += ["const double *const P = parameters + own * apart;"]
        lines += ["long long row = number / stride - first / stride, due = (number / stride + 1) * stride;"]
        for memory in (SHARED, SCRATCH):
            lines.append(f"int now_{memory} = 0, next_{memory} = {sizes[memory]};")
        self._carry(from_track=True)
        self.meet()
        self.statements(self.part.statements)
        self.part = self.program.step
        self.meet()
        status = self.entry(self.program.track[3], "0")
        lines += ["for (; number < stop; ++number) {", f"if ({status} == 0) {{"]
        self.statements(self.part.statements)
        self.meet()
        for array, register in self.memory.registers.items():
            if array in self.memory.carried:
                lines.append(f"s{register} = s{register}n;")
        for memory in (SHARED, SCRATCH):
            lines.append(f"{{ const int last = now_{memory}; now_{memory} = next_{memory}; next_{memory} = last; }}")
        lines += ["}", "if (number + 1 == due) {"]
        self._record()
        lines += ["++row; due += stride;", "}"]
        lines += [f"if ({status} == {IN_DOUBT}) {{ ++number; if (thread == 0) atomicAdd(doubts, 1); break; }}", "}"]
        self._carry(from_track=False)
        lines += ["if (thread == 0) next[own] = number;", "barrier();", "}"]
        return lines

    def _carry(self, from_track: bool) -> None:
        """Copy the track from where paths are between launches, or back to it."""
        for array, (matrix, column) in zip(self.program.track, self.columns, strict=True):
            if not array.size:
                continue
            width = sum(x.size for x, (of, _) in zip(self.program.track, self.columns, strict=True) if of == matrix)
            there = f"{matrix}[own * {width} + {column} + i]"
            if not self.in_register(array):
                pair = (self.entry(array, "i"), there) if from_track else (there, self.entry(array, "i"))
                self.rounds(array.size, lambda _, pair=pair: self.lines.append(f"{pair[0]} = {pair[1]};"))  # type: ignore[misc]
                continue
            there = there.replace(" + i]", "]")
            one = self.entry(array, "0")
            self.lines.append(f"{one} = {there};" if from_track else f"if (thread == 0) {there} = {one};")

    def _record(self) -> None:
        """Write q and p."""
        n = self.program.n
        for k, array in enumerate(self.program.track[:2]):
            there = f"rows[(row * size + own) * {2 * n} + {k * n} + i]"
            self.rounds(n, lambda i, there=there, array=array: self.lines.append(f"{there} = {self.entry(array, i)};"))  # type: ignore[misc]

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
                    raise Untranslatable("products and factors of whole matrices in a system of this size")
                case Iterations():
                    self.write_iterations(statement)


def columns_of(track: Sequence[Array]) -> list[tuple[str, int]]:
    """Where the leaves of a track are: from column so and so on in a matrix of their type."""
    used, columns = {REALS: 0, WHOLE: 0}, []
    for array in track:
        matrix = WHOLE if array.dtype == "int32" else REALS
        columns.append((matrix, used[matrix]))
        used[matrix] += array.size
    return columns


def block_kernel(program: ArrayProgram, shape: Shape, budget: int) -> BlockKernel:
    """The kernel for so many slots of shared memory: written several times, for only then it is known what is used."""
    memory = Memory(program, {}, 0)
    while True:
        trial = BlockKernel(program, shape, memory)
        trial.source()
        uniform = memory.uniform | trial.uniform
        known = memory.dead, memory.uniform
        memory = Memory(program, trial.counts, budget, trial.loaded, uniform)
        if known == (memory.dead, memory.uniform):
            return BlockKernel(program, shape, memory)
