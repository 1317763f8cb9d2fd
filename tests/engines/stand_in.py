"""As much of CuPy as the engine on GPUs uses: kernels are compiled as C++, and run here thread after thread."""

import ctypes
import re
import subprocess
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np

BEGIN = """
#include <cmath>
#include <cstring>
using std::isfinite;
#define __global__
#define __device__
struct Index { long long x; };
static Index blockIdx{0}, blockDim{1};
static thread_local Index threadIdx{0};  // chunks run side by side
static int atomicAdd(int *place, int value) { int old = *place; *place += value; return old; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
"""

INSTRUCTIONS = {"rcp": "r = 1.0 / y;", "rsqrt": "r = 1.0 / sqrt(x);"}
"""What the instructions of the processor do that the source names."""

TYPES = {
    "d": ctypes.c_double, "f": ctypes.c_float, "l": ctypes.c_longlong, "L": ctypes.c_ulonglong, "I": ctypes.c_uint,
}  # fmt: skip


class OnDevice(np.ndarray):
    """An array that has to be fetched."""

    def get(self, out=None):
        if out is None:
            return np.array(self)
        out[...] = self
        return out


def made_by(make, poison=None):
    """A function of NumPy for arrays on the device, which hold nothing that could pass for a result."""

    def there(*arguments, **more):
        array = make(*arguments, **more).view(OnDevice)
        if poison is not None:
            array.fill(poison)
        return array

    return there


def library(source, file, compiler):
    """The kernel as a function of the threads and of its own arguments."""
    name, arguments = re.search(r"__global__ void (\w+)\((.*?)\)", source).groups()
    source = re.sub(r'asm\("(\w+)\.approx[^)]*\)[^)]*\)\);', lambda found: INSTRUCTIONS[found[1]], source)
    names = ", ".join(re.split(r"[ *]+", argument)[-1] for argument in arguments.split(", "))
    end = f'\nextern "C" void launch(long long threads, {arguments}) {{'
    end += f"for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {name}({names}); }}"
    source = re.sub(r'asm volatile\(""[^;]*;', "", source)  # what keeps the compiler from something
    file.write_text(BEGIN + source + end)
    command = [compiler, "-O1", "-std=c++17", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-w", file, "-o", f"{file}.so"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(f"{file}.so").launch


def cupy(folder, compiler):
    """The module; `launches` of it are the numbers of threads of all launches."""
    module = ModuleType("cupy")
    module.__spec__ = ModuleSpec("cupy", None)
    module.launches = []

    class RawModule:
        def __init__(self, code, options):
            assert options == ("--std=c++17",)
            self.function = library(code, folder / f"{len(list(folder.iterdir()))}.cpp", compiler)

        def get_function(self, name):
            def launch(grid, block, arguments):
                module.launches.append(grid[0] * block[0])
                given = [ctypes.c_longlong(grid[0] * block[0])]
                for x in arguments:
                    array = isinstance(x, OnDevice)
                    assert not array or x.flags.c_contiguous
                    given.append(ctypes.c_void_p(x.ctypes.data) if array else TYPES[x.dtype.char](x.item()))
                self.function(*given)

            return launch

    module.RawModule = RawModule
    module.empty, module.full, module.zeros = made_by(np.empty, 77), made_by(np.full), made_by(np.zeros)
    module.asarray, module.ascontiguousarray = made_by(np.array), made_by(np.ascontiguousarray)
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    module.cuda = SimpleNamespace(
        runtime=runtime, Stream=lambda non_blocking: nullcontext(), alloc_pinned_memory=bytearray
    )
    return module
