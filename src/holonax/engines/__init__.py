"""How a chunk of paths runs.  A new engine is a module here (see `engines.llvm.runner`), and its name in `ENGINES`."""

from __future__ import annotations

import importlib.util

import jax

from holonax.compiler.frontend.translate import Untranslatable
from holonax.engines import (
    plain,
)
from holonax.engines.base import ROWS, Runner
from holonax.engines.cuda import runner as cuda
from holonax.engines.llvm import runner as llvm
from holonax.engines.xla import runner as xla
from holonax.errors import InputError
from holonax.mechanics.closures import remembered
from holonax.mechanics.system import System
from holonax.methods.base import Method

ENGINES = {
    "xla": xla,
    "llvm": llvm,
    "cuda": cuda,
}


def automatic() -> str:
    """The fastest engine that this machine has."""
    if importlib.util.find_spec("cupy") and cuda.missing() is None:
        return "cuda"
    return "llvm" if jax.default_backend() == "cpu" and llvm.missing() is None else "xla"


def runner(engine: str, system: System, method: Method, n: int, dtype: str) -> Runner:
    """The compiled program of an engine; what a machine lacks is said before anything is looked up or compiled."""
    return prepared(chosen(engine), system, method, n, dtype)


def chosen(engine: str) -> str:
    """The name of an engine, also for "auto"; an InputError if this machine lacks something for it."""
    name = automatic() if engine == "auto" else engine
    if (reason := ENGINES[name].missing()) is not None:
        raise InputError(f"engine = {name!r}: {reason}; engine='auto' chooses one that this machine has")
    return name


@remembered
def prepared(name: str, system: System, method: Method, n: int, dtype: str) -> Runner:
    """A runner, made once per engine, system, method, size and type.

    What cannot be turned into lanes runs on the plain engine, whose `fallback` says why.
    """
    try:
        return ENGINES[name].prepare(system, method, n, dtype)
    except (Untranslatable, RecursionError) as error:
        reason = "expressions so deeply nested" if isinstance(error, RecursionError) else str(error)
        instead = plain.prepare(system, method, n, dtype)
        instead.fallback = f"{name!r} engine cannot translate {reason}"
        return instead


__all__ = ["ENGINES", "ROWS", "Runner", "automatic", "chosen", "prepared", "runner"]
