"""The cases: which system and method, and who takes part at which size.

Sizes are chosen so that one run of a contestant lasts some tenths of a second; slow contestants run fewer paths.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import holonax as hx
from benchmarks import children, molecular, peers, threads
from benchmarks.contestants import chain_in_c, constraint, holonax, in_idiomatic_jax, pendulum_in_c
from benchmarks.measure import Contestant, Row, measure

SIGMA = 0.3  # of the chain's noise
QUICK = 8  # how many times shorter quick runs are


def _shorter(steps: int, quick: bool) -> int:
    return max(steps // QUICK, 4) if quick else steps


def _rows(case: str, entry: hx.Entry, contestants: Sequence[Contestant]) -> list[Row]:
    return measure(case, contestants, constraint(entry.system))


def pendulum_euler_a(quick: bool) -> list[Row]:
    """The paper's pendulum with the Euler method: everybody."""
    entry, paths = hx.systems.pendulum(), 8192
    fast, slow, t1 = _shorter(4096, quick), _shorter(1024, quick), _shorter(256, quick)
    few = {"paths": 2048, "steps": t1}
    contestants = [
        *pendulum_in_c("euler_a", paths=paths, steps=fast),
        holonax(entry, hx.EulerA(), "llvm", paths=paths, steps=fast),
        holonax(entry, hx.EulerA(), "xla", paths=paths, steps=slow),
        peers.numpy_pendulum(**few),
        in_idiomatic_jax(entry, None, **few),
        peers.diffrax_pendulum("Euler", **few),
        peers.diffrax_pendulum("Heun", **few),
        peers.torchsde_pendulum(**few),
    ]
    return _rows("pendulum, EulerA", entry, contestants)


def pendulum_rattle(quick: bool) -> list[Row]:
    """RATTLE."""
    entry, paths, steps = hx.systems.pendulum(), 8192, _shorter(4096, quick)
    contestants = [
        *pendulum_in_c("rattle", paths=paths, steps=steps),
        holonax(entry, hx.Rattle(), "llvm", paths=paths, steps=steps),
        in_idiomatic_jax(entry, hx.tableaux.RATTLE, paths=1024, steps=_shorter(128, quick)),
    ]
    return _rows("pendulum, Rattle", entry, contestants)


def pendulum_kicked(quick: bool) -> list[Row]:
    """Kicks between RATTLE steps."""
    entry, paths, steps = hx.systems.pendulum(), 8192, _shorter(2048, quick)
    contestants = [
        *pendulum_in_c("kicked", paths=paths, steps=steps),
        holonax(entry, hx.Kicked("symmetric"), "llvm", paths=paths, steps=steps),
    ]
    return _rows("pendulum, Kicked", entry, contestants)


def pendulum_lobatto32(quick: bool) -> list[Row]:
    """The three-stage method of strong order 3/2."""
    entry = hx.systems.pendulum()
    contestants = [
        holonax(entry, hx.Lobatto32(), "llvm", paths=8192, steps=_shorter(512, quick)),
        in_idiomatic_jax(entry, hx.tableaux.LOBATTO_32, paths=1024, steps=_shorter(64, quick)),
    ]
    return _rows("pendulum, Lobatto32", entry, contestants)


def rigid_body(quick: bool) -> list[Row]:
    """Nine coordinates, six constraints."""
    return _against_idiomatic("rigid body, EulerA", hx.systems.rigid_body(), quick, 512)


def ellipsoid(quick: bool) -> list[Row]:
    """A Lagrangian that is not separable."""
    return _against_idiomatic("ellipsoid, EulerA", hx.systems.ellipsoid(), quick, 1024)


def _against_idiomatic(case: str, entry: hx.Entry, quick: bool, steps: int) -> list[Row]:
    contestants = [
        holonax(entry, hx.EulerA(), "llvm", paths=8192, steps=_shorter(steps, quick)),
        in_idiomatic_jax(entry, None, paths=1024, steps=_shorter(64, quick)),
    ]
    return _rows(case, entry, contestants)


def chain_8(quick: bool) -> list[Row]:
    """Eight beads."""
    paths, steps = 2048, _shorter(2048, quick)
    openmm = {"paths": 256, "steps": _shorter(256, quick)}
    return _chain(8, paths, steps, {"paths": 256, "steps": _shorter(64, quick)}, openmm)


def chain_64(quick: bool) -> list[Row]:
    """Sixty-four beads: 192 coordinates, 64 constraints."""
    paths, steps = 1024, _shorter(512, quick)
    openmm = {"paths": 64, "steps": _shorter(256, quick)}
    return _chain(64, paths, steps, {"paths": 16, "steps": 8}, openmm)


def _chain(beads: int, paths: int, steps: int, idiomatic: dict[str, int], openmm: dict[str, int]) -> list[Row]:
    entry = hx.systems.chain(beads, SIGMA)
    contestants = [
        *chain_in_c(beads, SIGMA, paths=paths, steps=steps),
        holonax(entry, hx.EulerA(), "llvm", paths=paths, steps=steps),
        in_idiomatic_jax(entry, None, **idiomatic),
        molecular.openmm_chain(beads, SIGMA, **openmm),
        molecular.openmm_chain(beads, SIGMA, **openmm, platform="Reference", tolerance=1e-12),
    ]
    return _rows(f"chain of {beads} beads, EulerA", entry, contestants)


def number_of_paths(quick: bool) -> list[Row]:
    """Ten thousand and a million paths, of as many steps: what a path costs besides is the same."""
    entry = hx.systems.pendulum()
    contestants = []
    for paths, name in ((10**4, "10^4"), (10**6, "10^6")):
        size = {"paths": paths, "steps": _shorter(256, quick)}
        contestants += pendulum_in_c("euler_a", **size, suffix=f", {name} paths")
        contestants.append(holonax(entry, hx.EulerA(), "llvm", **size, who=f"holonax, llvm, {name} paths"))
    return _rows("pendulum, EulerA, number of paths", entry, contestants)


CASES: dict[str, Callable[[bool], list[Row]]] = {  # by the names of `__main__`
    "pendulum-euler-a": pendulum_euler_a,
    "pendulum-rattle": pendulum_rattle,
    "pendulum-kicked": pendulum_kicked,
    "pendulum-lobatto32": pendulum_lobatto32,
    "rigid-body": rigid_body,
    "ellipsoid": ellipsoid,
    "chain-8": chain_8,
    "chain-64": chain_64,
    "paths": number_of_paths,
    "threads": threads.one_and_all,
}

if __name__ == "__main__":
    children.hand_over(CASES[sys.argv[1]](sys.argv[2] == "quick"))
