"""Functions are known by what they refer to, and traced only where that may have changed."""

import math
import time
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.mechanics import closures
from holonax.mechanics import start as module
from holonax.mechanics.references import references

strength = 2.0
levels = np.array([1.0, 2.0])
listed = [1.0, 2.0]
thing = SimpleNamespace(strength=2.0)


def inner(q):
    return strength * q


def refer(function):
    return references(iter([function]))


def closing_over(value):
    return lambda q: value * jnp.sin(q) + math.pi * len(q)


def with_nested(q):
    return sum((lambda x: strength * x)(x) for x in q)


def with_default(q, factor=levels):
    return factor * q


def named(q):
    return named.factor * q


named.factor = 1.0


def by_list(q):
    return listed[0] * q


CLEAR = [
    inner,
    with_nested,
    with_default,
    named,
    by_list,
    closing_over(2.0),
    closing_over(levels),
    closing_over(jnp.arange(3.0)),
    partial(with_default, factor=jnp.ones(3)),
    jnp.sin,
    lambda q: inner(q) @ jnp.array([1.0, 2.0]),
]


@pytest.mark.parametrize("function", CLEAR)
def test_the_same_references(function):
    assert refer(function) is not None
    assert refer(function) == refer(function)


CHANGES = {
    "a global": (inner, lambda m: m.setitem(globals(), "strength", 3.0)),
    "a global of a function that is called": (lambda q: inner(q), lambda m: m.setitem(globals(), "strength", 3.0)),
    "a global of a function inside": (with_nested, lambda m: m.setitem(globals(), "strength", 3.0)),
    "an array in place": (with_default, lambda m: levels.__setitem__(0, 7.0)),
    "an attribute of a function": (named, lambda m: m.setattr(named, "factor", 2.0)),
    "an item of a list": (by_list, lambda m: listed.__setitem__(0, 5.0)),
    "a default": (with_default, lambda m: m.setattr(with_default, "__defaults__", (1.0,))),
    "the code": (inner, lambda m: m.setattr(inner, "__code__", named.__code__)),
    "the precision of JAX": (inner, lambda m: jax.config.update("jax_default_matmul_precision", "highest")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_seen(change, monkeypatch):
    function, make = CHANGES[change]
    before = refer(function)
    try:
        make(monkeypatch)
        assert refer(function) != before
    finally:
        jax.config.update("jax_default_matmul_precision", None)
        levels[0] = listed[0] = 1.0


def test_a_closure_that_changes_is_seen():
    function = closing_over(2.0)
    before = refer(function)
    function.__closure__[0].cell_contents = 3.0
    assert refer(function) != before


class Called:
    def __call__(self, q):
        return q

    def method(self, q):
        return q


def importing(q):
    import holonax

    return holonax.T * q


@pytest.mark.parametrize(
    "function",
    [
        lambda q: thing.strength * q,
        lambda q: time.time() * q,
        lambda q: np.random.default_rng(0).normal() * q,
        lambda q: hx.systems.strength * q,
        lambda q: missing * q,  # noqa: F821
        lambda q: eval("strength") * q,
        importing,
        Called(),
        Called().method,
        jax.jit(inner),
        jax.tree_util.Partial(inner),
        jnp.frompyfunc(lambda x, y: strength * x, 2, 1),
        closing_over({1.0, 2.0}),
        closing_over(np.array([thing])),
    ],
)
def test_what_may_change_unseen_is_left_to_tracing(function):
    assert refer(function) is None


def test_a_system_is_traced_once(monkeypatch):
    """And again when something has changed, so that its programs are made anew."""
    traced = []
    original = closures.fingerprint
    monkeypatch.setattr(closures, "fingerprint", lambda *given: traced.append(1) or original(*given))
    system = hx.System(lambda q, v: 0.5 * v @ v - strength * q[0], n=1)
    start = hx.start(system, [0.0], [1.0])
    run = {"t1": 1.0, "h": 0.25}
    ends = [float(hx.simulate(system, hx.EulerA(), start, **run).p[0, -1, 0]) for _ in range(3)]
    assert len(traced) == 1
    monkeypatch.setitem(globals(), "strength", 3.0)
    ends.append(float(hx.simulate(system, hx.EulerA(), start, **run).p[0, -1, 0]))
    assert len(traced) == 2
    np.testing.assert_allclose(ends, [-1.0, -1.0, -1.0, -2.0])


def test_a_start_is_checked_once(monkeypatch):
    """Unless its arrays, the parameters or the functions are others."""
    checked = []
    original = module._check
    monkeypatch.setattr(module, "_check", lambda *x: checked.append(1) or original(*x))
    system = hx.System(lambda q, v, *, mass: 0.5 * mass * v @ v, lambda q: q @ q - strength, parameters={"mass": 1.0})
    start = hx.start(system, [2.0**0.5, 0.0], [0.0, 1.0])
    run = {"t1": 0.5, "h": 0.25, "paths": 2}
    for _ in range(3):
        hx.simulate(system, hx.EulerA(), start, **run)
    assert len(checked) == 1
    hx.simulate(system, hx.EulerA(), start, parameters={"mass": 2.0}, **run)
    assert len(checked) == 2
    mutable = hx.State(*map(np.array, start))
    hx.simulate(system, hx.EulerA(), mutable, **run)
    mutable.q[0] = 1.0
    with pytest.raises(hx.StartError, match="off the manifold"):
        hx.simulate(system, hx.EulerA(), mutable, **run)
    monkeypatch.setitem(globals(), "strength", 3.0)
    with pytest.raises(hx.StartError, match="off the manifold"):
        hx.simulate(system, hx.EulerA(), start, **run)
