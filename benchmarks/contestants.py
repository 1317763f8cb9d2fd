"""holonax, the hand-written and the hand-tuned C and the idiomatic JAX program, as contestants."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import holonax as hx
from benchmarks import idiomatic, native
from benchmarks.measure import Contestant

H = 2.0**-8
WARM_UP_STEPS = 2
NO_COMPILER = "no C compiler"


def constraint(system: hx.System) -> Callable[[np.ndarray], np.ndarray]:
    """|g(q)| of many positions, shape (paths, n)."""
    values = jax.jit(jax.vmap(system.g))
    return lambda q: np.abs(values(jnp.asarray(q, jnp.float64)))


def holonax(
    entry: hx.Entry,
    method: hx.Method,
    engine: str,
    *,
    paths: int,
    steps: int,
    dtype: str = "float64",
    who: str | None = None,
) -> Contestant:
    """`hx.simulate` as a whole, end states only."""

    def run(steps: int) -> np.ndarray:
        options = {"save_every": None, "engine": engine, "dtype": dtype, "progress": False}
        done = hx.simulate(entry.system, method, entry.start, t1=steps * H, h=H, paths=paths, seed=0, **options)
        return done.q[:, -1]

    return Contestant(
        who or f"holonax, {engine}", paths * steps, partial(run, steps), partial(run, min(steps, WARM_UP_STEPS))
    )


def by_hand(
    program: Callable[..., Any], *, paths: int, steps: int, suffix: str = "", threads: int = 1
) -> list[Contestant]:
    """`reference.c`, first as written and then tuned; with several threads, the paths are dealt out among them."""

    def part(tuned: bool, steps: int, number: int) -> np.ndarray:
        first, end = (paths * i // threads for i in (number, number + 1))
        return program(first=first, paths=end - first, steps=steps, h=H, tuned=tuned)[0].T

    def run(tuned: bool, steps: int) -> np.ndarray:
        if threads == 1:
            return part(tuned, steps, 0)
        with ThreadPoolExecutor(threads) as pool:  # ctypes lets go of Python's lock
            return np.concatenate(list(pool.map(partial(part, tuned, steps), range(threads))))

    return [
        Contestant(f"{who}{suffix}", missing=NO_COMPILER)
        if native.compiler() is None
        else Contestant(f"{who}{suffix}", paths * steps, partial(run, tuned, steps), partial(run, tuned, 1))
        for who, tuned in native.VARIANTS.items()
    ]


def pendulum_in_c(method: str, **size: Any) -> list[Contestant]:
    """`reference.c` for the pendulum; `size` as in `by_hand`."""
    return by_hand(partial(native.pendulum, method, *_start(hx.systems.pendulum())), **size)


def chain_in_c(beads: int, sigma: float, **size: Any) -> list[Contestant]:
    """`reference.c` for the chain, with a tridiagonal solver."""
    return by_hand(partial(native.chain, *_start(hx.systems.chain(beads, sigma)), sigma=sigma), **size)


def in_idiomatic_jax(
    entry: hx.Entry,
    tableau: hx.Tableau | None,
    *,
    paths: int,
    steps: int,
    dtype: str = "float64",
    who: str = "idiomatic JAX",
) -> Contestant:
    """EulerA, or the VPRK of a tableau, as in `idiomatic.py`."""
    step = idiomatic.euler_a if tableau is None else partial(idiomatic.vprk, tableau)
    areas = tableau is not None and bool(np.any(np.asarray(tableau.kappa) != 0))
    functions = idiomatic.Functions.of(entry.system)
    program = idiomatic.simulate(
        functions, step, *_start(entry), h=H, steps=steps, paths=paths, areas=areas, dtype=dtype
    )

    return compiled(who, paths * steps, program)


def compiled(who: str, path_steps: int, program: Any, note: str = "") -> Contestant:
    """A jitted function from a key to a tuple of end states, positions first, compiled ahead of time."""
    executable: list[Any] = []

    def warm_up() -> None:
        executable.append(program.lower(jax.random.key(0)).compile())

    def run() -> Any:
        return executable[0](jax.random.key(0))[0].block_until_ready()

    return Contestant(who, path_steps, run, warm_up, note=note)


def _start(entry: hx.Entry) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(entry.start.q), np.asarray(entry.start.p)
