"""The source of CUDA kernels, compiled as C++ and run thread after thread: the same paths as LLVM's kernels."""

import ctypes
import re
import shutil
import subprocess
from ctypes import c_double, c_longlong, c_uint, c_void_p
from functools import cached_property

import numpy as np
import pytest

import holonax as hx
from holonax.compiler import compile_step
from holonax.compiler.ir.operations import OPERATIONS, Library
from holonax.engines.cuda import emit, runner
from holonax.engines.lanes import LaneRunner
from support import bent_curve, entry, heavy

COMPILER = shutil.which("g++") or shutil.which("clang++")

BEGIN = """
#include <cmath>
#include <cstring>
using std::isfinite;
#define __global__
#define __device__
struct Index { long long x; };
static Index blockIdx{0}, blockDim{1}, threadIdx{0};
static int atomicAdd(int *place, int value) { int old = *place; *place += value; return old; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
"""

END = """
extern "C" void launch(
    void **carried, unsigned long long *paths, double *rows, long long *next, int *doubts, unsigned key0, unsigned key1,
    double h, long long size, long long first, long long stop, long long stride, long long offset
) {
    for (threadIdx.x = 0; threadIdx.x < size; ++threadIdx.x)
        advance(carried, paths, rows, next, doubts, key0, key1, h, size, first, stop, stride, offset);
}
"""

INSTRUCTIONS = {"rcp": "r = 1.0 / y;", "rsqrt": "r = 1.0 / sqrt(x);"}
"""What the instructions of the processor do that the source names."""


class OnThisProcessor(LaneRunner):
    """Like the runner on a GPU."""

    def __init__(self, system, method, n, folder):
        super().__init__(compile_step(system.form, method, n, "float64", runner.TARGET))
        self.folder, self.doubts = folder, 0
        self.kernel = self.compiled(emit.kernel(self.program), "kernel")

    @cached_property
    def again(self):
        return self.compiled(emit.again(self.program.again()), "again")

    def compiled(self, source, name):
        source = re.sub(r'asm\("(\w+)\.approx[^)]*\)[^)]*\)\);', lambda found: INSTRUCTIONS[found[1]], source)
        file = self.folder / f"{name}.cpp"
        file.write_text(BEGIN + source.replace('asm volatile("");', "") + END)
        command = [COMPILER, "-O1", "-std=c++17", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-w", file, "-o", f"{file}.so"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(f"{file}.so").launch

    def advance(self, carried, paths, seed, h, first, stop, stride, offset=0):
        size, rows = len(paths), self.rows(np, len(paths), first, stop, stride)
        following, doubts = np.full(size, first, np.int64), np.zeros(1, np.int32)
        pointers = (c_void_p * len(carried))(*(x.ctypes.data for x in carried))
        arrays = [x.ctypes.data_as(c_void_p) for x in (paths, rows, following, doubts)]
        numbers = [c_longlong(x) for x in (size, first, stop, stride, offset)]
        arguments = [pointers, *arrays, c_uint(seed), c_uint(0), c_double(h), *numbers]
        self.kernel(*arguments)
        while doubts[0]:
            self.doubts += int(doubts[0])
            doubts[:] = 0
            self.again(*arguments)
            self.kernel(*arguments)
        return carried, *self.split(rows)


def compare(system, method, start, folder, h, steps):
    """The same 64 paths by both engines; how many steps were taken again."""
    n, paths = len(start.q), 64
    states = hx.State(*(np.broadcast_to(x, (paths, n)) for x in (start.q, start.p, start.guess)))
    made = OnThisProcessor(system, method, n, folder)
    carried, q, p = made.advance(made.begin(states, {}), np.arange(paths, dtype=np.uint64), 1, h, 0, steps, 1)
    fate = made.fate(carried)
    run = hx.simulate(system, method, start, t1=steps * h, h=h, paths=paths, seed=1, engine="llvm", on_failure="mark")
    np.testing.assert_array_equal(fate.status, run.status)
    np.testing.assert_array_equal(fate.failed_step, run.failed_step)
    alive = run.status == 0
    for found, expected in ((q, run.q), (p, run.p)):
        np.testing.assert_allclose(found.swapaxes(0, 1)[alive], expected[alive, 1:], rtol=0, atol=1e-10)
    return made.doubts


pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("pendulum", hx.Rattle()),
        heavy("pendulum", hx.EulerA()),
        heavy("ellipsoid", hx.EulerA()),
        heavy("ellipsoid", hx.Lobatto(3)),
        heavy("rigid_body", hx.Kicked()),
        heavy("chain", hx.Rattle()),
    ],
    ids=str,
)
def test_the_source_does_what_the_others_do(name, method, tmp_path):
    e = entry(name)
    compare(e.system, method, e.start, tmp_path, 2.0**-6, 32)


def test_steps_in_doubt(tmp_path):
    system, start = bent_curve()
    assert compare(system, hx.Rattle(), start, tmp_path, 0.25, 16) > 20


@pytest.mark.study
def test_every_function_of_one_argument(tmp_path):
    rows = [row for row in OPERATIONS.values() if isinstance(row.llvm, Library) and "{1}" not in row.cuda]
    places = np.array([0.5 if np.isfinite(row.xla(0.5)) else 1.5 for row in rows])

    def potential(q):
        return sum(x * row.xla(x) for x, row in zip(q, rows, strict=True))

    system = hx.System(lambda q, v: 0.5 * v @ v - potential(q), n=len(rows))
    compare(system, hx.EulerA(), hx.start(system, places), tmp_path, 2.0**-6, 1)
