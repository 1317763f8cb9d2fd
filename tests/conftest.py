import gc
import os
import signal
import sys
import tempfile
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest

# Most programs of XLA run but once here: two thirds of the time would go into making them fast.  The fusion emitters,
# which are to make them faster still, take longer to compile than all the rest; from jaxlib 0.11 on they cannot be
# switched off any more, and XLA ends a process that tries to.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    + " --xla_cpu_use_fusion_emitters=false" * metadata.version("jaxlib").startswith("0.10."),
)
os.environ.setdefault("HOLONAX_CHECK", "1")  # programs are checked after every pass
os.environ["HOLONAX_CACHE"] = ""  # nothing of what is tested comes from an earlier run
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or its threads would wait for those of other test processes

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.insert(0, str(Path(__file__).parent))

import jax
from jax import monitoring

from holonax.studies import lockstep

lockstep.jit = partial(lockstep.jit, compiler_options={"xla_backend_optimization_level": 3})  # but studies run long
gc.set_threshold(20_000)  # tracing makes so many objects that the default, 700, takes a tenth of the time


def pytest_collection_modifyitems(items):
    """Files whose tests take longest come first, so that no process has to wait for another one at the end.

    The tests of a file run in one process (`--dist loadfile`), for they share compiled programs.
    """
    items.sort(key=lambda item: item.path.name not in LONGEST_FILES)


@pytest.fixture(autouse=True, scope="session")
def _one_program_for_equal_code():
    """A third of the programs that XLA compiles are equal to others, of other functions: a cache on disk knows them.

    It ends with the process, and no other process has it.
    """
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        yield


LONGEST_FILES = {"test_cli.py", "test_orders.py", "test_recipes.py", "test_structure.py", "test_langevin.py"}
MAPPINGS = Path("/proc/self/maps")
MOST_MAPPINGS, MANY_PROGRAMS = 50_000, 100
_programs = []  # that were compiled since mappings were counted: the seconds it took


def _note(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        _programs.append(seconds)


monitoring.register_event_duration_secs_listener(_note)


@pytest.fixture(autouse=True)
def _forget_programs():
    """XLA's programs take so many mappings of memory that all of them together would exceed what Linux allows.

    To count mappings takes some 20 ms, so not after every test.
    """
    yield
    if len(_programs) >= MANY_PROGRAMS and MAPPINGS.exists():
        _programs.clear()
        if MAPPINGS.read_bytes().count(b"\n") > MOST_MAPPINGS:
            jax.clear_caches()


@pytest.fixture
def optimised(monkeypatch):
    """The engine xla as users have it: otherwise last digits may depend on where a loop begins."""
    from holonax.engines.xla import runner

    monkeypatch.setattr(runner, "OPTIONS", runner.OPTIONS | {"xla_backend_optimization_level": 3})
