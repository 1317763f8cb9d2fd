"""The passes as a whole: what the checker finds, what a target lacks, and what `explain` tells."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import compiler, engines
from holonax.compiler import PASSES, PASSES_OF_LONG_PROGRAMS, Untranslatable, compile_step
from holonax.compiler.ir.check import MalformedError, check
from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.operations import OPERATIONS
from holonax.compiler.ir.program import Block
from holonax.compiler.ir.track import TrackLayout
from holonax.engines import llvm
from holonax.methods.path import Fate, begin
from support import bent_curve, entry


def pendulum():
    e = entry("pendulum")
    return compile_step(e.system, hx.Rattle(), e.n, "float64", llvm.TARGET)


def test_the_entries_of_a_track_are_numbered_as_they_are_laid_out():
    layout, n, outcomes = TrackLayout.of(2, 3), 2, 3
    track = begin(hx.State(*np.arange(3 * n, dtype=float).reshape(3, 1, n)), outcomes)
    flat = np.concatenate([np.ravel(field) for part in track for field in part])
    assert layout.size == len(flat) == 3 * n + 4 + outcomes
    assert flat[list(layout.state.p)].tolist() == track.state.p[0].tolist()
    assert flat[list(layout.fate.failed_step)].tolist() == [-1]
    assert layout.status == 3 * n
    assert Fate._fields[-1] == "counts"
    assert len(layout.fate.counts) == outcomes


def test_programs_are_checked_after_every_pass(monkeypatch):
    seen = []
    monkeypatch.setattr(compiler, "check", lambda program, after: seen.append(after))
    e = hx.systems.chain(40)
    compile_step(e.system, hx.EulerA(), e.n, "float64", llvm.TARGET._replace(long=0))
    assert seen == [*PASSES, *PASSES_OF_LONG_PROGRAMS]


def operations_of(program):
    return [item for item in program.body if isinstance(item, Node)]


def use_before_definition(program):
    first = next(node for node in operations_of(program) if any(x in program.body for x in node.args))
    program.body.remove(first)
    program.body.insert(0, first)


def lost(program):
    used = {program.final(x) for node in operations_of(program) for x in node.args}
    program.body.remove(next(node for node in operations_of(program) if node in used))


def twice(program):
    program.body.append(operations_of(program)[0])


def not_closed(program):
    program.failure.body.pop()


def other_type(program):
    node = next(node for node in operations_of(program) if node.name == "multiply")
    node.dtype = "float32"


def out_of_its_loop(program):
    block = next(item for item in program.body if isinstance(item, Block))
    inside = next(item for item in block.body if isinstance(item, Node) and block.loop in item.loops)
    block.body.remove(inside)
    program.body.append(inside)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (use_before_definition, "before it is computed"),
        (lost, "before it is computed"),
        (twice, "is computed twice"),
        (not_closed, "a loop is not closed: "),
        (other_type, "is said to be float"),
        (out_of_its_loop, "before it is computed"),
    ],
)
def test_the_checker_finds_what_a_pass_has_broken(broken, message):
    program = pendulum()
    check(program, "nothing")
    broken(program)
    with pytest.raises(MalformedError, match=f"after breaking it: .*{message}"):
        check(program, "breaking it")


@pytest.mark.parametrize("target", ["llvm", "xla"])
def test_an_operation_that_a_target_lacks_is_named(target, monkeypatch):
    monkeypatch.setitem(OPERATIONS, "cbrt", dataclasses.replace(OPERATIONS["cbrt"], **{target: None}))
    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.cbrt(q[0]), n=1)
    start = hx.start(system, [1.0])
    with pytest.raises(hx.InputError, match=f"the '{target}' engine cannot translate the operation 'cbrt', for which"):
        hx.simulate(system, hx.EulerA(), start, t1=0.5, h=0.25, engine=target)
    with pytest.raises(Untranslatable):
        compiler.Target(target, {}, most=1).check("cbrt")


def test_steps_that_are_taken_again_leave_behind_what_the_next_one_needs():
    """Functions of q, which both kernels carry."""
    (system, start), h = bent_curve(), 0.25
    observe = {"q": hx.Mean(lambda q, p: q)}
    options = {"paths": 64, "seed": 1, "engine": "llvm", "on_failure": "mark", "observe": observe}
    run = hx.simulate(system, hx.Rattle(), start, t1=4.0, h=h, **options)
    assert engines.runner("llvm", system.form, hx.Rattle(), 2, "float64").again.kernel is not None
    assert (run.status == 0).sum() > 20
    np.testing.assert_array_equal(run.failed_step < 0, run.status == 0)
    assert run.observed["q"].count[-1] == (run.status == 0).sum()
    for path in np.flatnonzero(run.status == 0)[:20]:
        increments = hx.increments(system, h=h, steps=16, seed=1, path=int(path))
        expected = hx.integrate(system, hx.Rattle(), start, increments).q
        np.testing.assert_allclose(run.q[path], expected, rtol=0, atol=1e-9)


def test_what_the_compiler_made_of_it_is_explained():
    e = hx.systems.chain(8)
    rows = dict(hx.explain(e.system, hx.EulerA(), n=e.n, engine="llvm").rows)
    assert rows["equations of 32 unknowns"] == "32 eliminated, none left"
    assert rows["carried by a path"].startswith("52 of 76")
    assert {f"seconds, {name}" for name in (*PASSES, "tracing", "translation", "code")} <= rows.keys()
    assert "loops over links" not in rows
    text = repr(hx.explain(entry("pendulum").system, hx.EulerA(), engine="xla"))
    assert text.startswith("EulerA() on a system of 3 coordinates, 1 constraint, 3 noises\n")
    assert "1 left to the formula for quadratics" in text


def test_what_runs_with_loops_over_arrays_is_explained_too():
    system = hx.System(lambda q, v: 0.5 * v @ v - q @ q, n=700, constraint=lambda q: q[:650] ** 2 - 1.0)
    rows = dict(hx.explain(system, hx.EulerA()).rows)
    assert "with loops over arrays, because equations of 1350 unknowns (the limit is 600)" in rows["engine"]
    assert rows["equations of 1350 unknowns"] == "700 eliminated, 650 left to Newton's method"


def test_what_cannot_be_translated_is_explained_too():
    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.sort(q) @ q, n=3)
    rows = dict(hx.explain(system, hx.EulerA()).rows)
    assert rows["engine"] == "plain, since 'llvm' cannot translate the primitive 'sort'"
    with pytest.raises(hx.InputError, match="engine = 'gpu'"):
        hx.explain(system, hx.EulerA(), engine="gpu")
