"""As much of CuPy as the engine on GPUs uses: kernels are compiled as C++, and run here thread after thread.

Threads of a block that wait for each other are fibers: each runs until it waits, then the next one does.  What a thread
needs of another one and does not wait for is therefore not there yet, or overwritten: every second block begins with
its last thread.
"""

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
#include <ucontext.h>
#include <vector>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct Index { long long x; };
struct uint2 { unsigned x, y; };
struct int2 { int x, y; };
struct uint4 { unsigned x, y, z, w; };
static thread_local Index blockIdx{0}, blockDim{1}, gridDim{1}, threadIdx{0};  // chunks run side by side
static thread_local std::vector<double> shared, values;
static thread_local std::vector<ucontext_t> fibers;
static thread_local std::vector<std::vector<char>> stacks;
static thread_local std::vector<bool> running;
static thread_local ucontext_t scheduler;
static thread_local void (*work)();
static void yield() { swapcontext(&fibers[threadIdx.x], &scheduler); }
static void __syncthreads() { yield(); }
static void __syncwarp() { yield(); }
static void fiber() { work(); running[threadIdx.x] = false; yield(); }
template <class T> T __shfl_xor_sync(unsigned, T x, int d) {
    values[threadIdx.x] = x; yield(); T other = (T)values[threadIdx.x ^ d]; yield(); return other;
}
static bool __syncthreads_or(bool x) {
    values[threadIdx.x] = x; yield();
    bool any = false;
    for (double value : values) any |= value != 0;
    yield(); return any;
}
static bool __any_sync(unsigned, bool x) { return __syncthreads_or(x); }
template <class T> T __ldg(const T *place) { return *place; }
static void run_block(void (*kernel)()) {
    const int threads = blockDim.x;
    work = kernel;
    values.assign(threads, 0);
    fibers.resize(threads); stacks.resize(threads); running.assign(threads, true);
    for (int i = 0; i < threads; ++i) {
        stacks[i].resize(1 << 16);
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i].data(); fibers[i].uc_stack.ss_size = stacks[i].size();
        makecontext(&fibers[i], fiber, 0);
    }
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < threads; ++i) {
            threadIdx.x = blockIdx.x % 2 ? threads - 1 - i : i;
            if (running[threadIdx.x]) { any = true; swapcontext(&scheduler, &fibers[threadIdx.x]); }
        }
    }
}
static int atomicAdd(int *place, int value) { int old = *place; *place += value; return old; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
"""

INSTRUCTIONS = {"rcp": "r = 1.0 / y;", "rsqrt": "r = 1.0 / sqrt(x);"}
"""What the instructions of the processor do that the source names."""

TYPES = {
    "d": ctypes.c_double, "f": ctypes.c_float, "l": ctypes.c_longlong, "L": ctypes.c_ulonglong, "I": ctypes.c_uint,
}  # fmt: skip


ATTRIBUTES = {
    "MaxSharedMemoryPerBlockOptin": 2**16, "MaxSharedMemoryPerMultiprocessor": 2**17, "MultiProcessorCount": 3,
}  # fmt: skip
"""Of a small device."""


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
    """The kernel as a function of blocks, threads in each, bytes of shared memory, and of its own arguments."""
    found = re.search(r"__global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\((.*?)\)", source)
    (name, arguments), source = (
        found.groups(),
        source.replace("extern __shared__ double S[];", "double *S = &shared[0];"),
    )
    source = re.sub(r'asm\("(\w+)\.approx[^)]*\)[^)]*\)\);', lambda found: INSTRUCTIONS[found[1]], source)
    arguments = arguments.replace("__restrict__", "")
    split = [re.match(r"(.*[ *])(\w+)$", argument).groups() for argument in arguments.split(", ")]
    given = ", ".join(f"given_{own}" for _, own in split)
    end = "".join(f"\nstatic thread_local {kind}given_{own};" for kind, own in split)
    end += f"\nstatic void call() {{ {name}({given}); }}"
    end += f'\nextern "C" void launch(long long grid, long long block, long long bytes, {arguments}) {{'
    end += "".join(f"given_{own} = {own};" for _, own in split)
    if "barrier" in source:
        end += "gridDim.x = grid; blockDim.x = block;"
        end += "for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)"
        end += "{ shared.assign(bytes / 8 + 1, 77.0); run_block(call); } }"
    else:
        end += "for (threadIdx.x = 0; threadIdx.x < grid * block; ++threadIdx.x) call(); }"
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
            def launch(grid, block, arguments, shared_mem=0):
                module.launches.append(grid[0] * block[0])
                given = [ctypes.c_longlong(x) for x in (grid[0], block[0], shared_mem)]
                for x in arguments:
                    array = isinstance(x, OnDevice)
                    assert not array or x.flags.c_contiguous
                    given.append(ctypes.c_void_p(x.ctypes.data) if array else TYPES[x.dtype.char](x.item()))
                self.function(*given)

            launch.kernel = SimpleNamespace(ptr=0)
            return launch

    module.RawModule = RawModule
    module.empty, module.full, module.zeros = made_by(np.empty, 77), made_by(np.full), made_by(np.zeros)
    module.asarray, module.ascontiguousarray = made_by(np.array), made_by(np.ascontiguousarray)
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    driver = SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=lambda function, threads, shared: 1)
    module.cuda = SimpleNamespace(
        runtime=runtime,
        driver=driver,
        Device=lambda: SimpleNamespace(attributes=ATTRIBUTES, use=lambda: None),
        Stream=lambda non_blocking: nullcontext(),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        alloc_pinned_memory=bytearray,
    )
    return module
