import os
import sys
from functools import partial
from pathlib import Path

import pytest

# Most programs of XLA run but once here, and two thirds of the time would go into making them fast.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1")
os.environ.setdefault("HOLONAX_CHECK", "1")  # programs are checked after every pass
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or its threads would wait for those of other test processes

sys.path.insert(0, str(Path(__file__).parent))

from holonax.studies import lockstep

lockstep.jit = partial(lockstep.jit, compiler_options={"xla_backend_optimization_level": 3})  # but studies run long


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Keep tests that share compiled programs in one process: those of a file, or of a method on a system.

    Files whose tests take longest come first, so that no process has to wait for another one at the end.
    """
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        shared = {"name", "method"} <= parameters.keys()
        group = f"{parameters['name']}-{parameters['method']}" if shared else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.path.name not in LONGEST_FILES)


LONGEST_FILES = {"test_docs.py", "test_orders.py", "test_cli.py"}
MAPPINGS = Path("/proc/self/maps")


@pytest.fixture(autouse=True)
def _forget_programs():
    """XLA's programs take so many mappings of memory that all of them together would exceed what Linux allows."""
    yield
    if MAPPINGS.exists() and MAPPINGS.read_bytes().count(b"\n") > 30_000:
        import jax

        jax.clear_caches()
