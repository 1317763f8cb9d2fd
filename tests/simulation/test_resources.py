"""What a long session, other processes and a cache of programs cost; `make resources` measures more of it."""

import gc
import re
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import engines
from holonax.mechanics import closures
from support import compilations, python

FORKED = """
    import os, warnings
    warnings.simplefilter("ignore")  # JAX warns of forks
    import holonax as hx
    entry = hx.systems.pendulum()
    {used}
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        try:
            print(hx.simulate(entry.system, hx.EulerA(), entry.start, t1=0.5, h=0.25).q.shape, flush=True)
        except hx.HolonaxError as error:
            print(error, flush=True)
        os._exit(0)
"""


def test_a_forked_process_says_so_at_once():
    used = "hx.start(entry.system, entry.start.q)"
    assert "start processes with multiprocessing.get_context('spawn')" in python(FORKED.format(used=used))


LIMITED = """
    import resource
    import holonax as hx
    entry = hx.systems.pendulum()
    resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
    try:
        hx.simulate(entry.system, hx.EulerA(), entry.start, t1=2.0**12, h=2.0**-8, paths=400)
    except hx.InputError as error:
        print(error)
"""


def test_limits_of_memory_are_known():
    assert re.search(r"need 18.8 GiB, this machine has 16.0; write them to disk with store=", python(LIMITED))


@pytest.mark.study
def test_old_programs_are_given_up(monkeypatch):
    """A program goes with its system when others have taken its place, and so do those of observables."""
    engines.prepared.cache_clear()
    kept = []

    def one(i, method):
        system = hx.System(lambda q, v: 0.5 * v @ v - (1.0 + i) * q[0], n=1)
        fn = lambda q, p: q[0] + i  # noqa: E731
        start = hx.start(system, [0.0])
        hx.simulate(system, method, start, t1=0.5, h=0.25, observe={"q": hx.Mean(fn)})
        hx.integrate(system, method, start, hx.increments(system, h=0.25, steps=2, seed=0))
        kept.append((weakref.ref(fn), weakref.ref(engines.runner("llvm", system.form, method, 1, "float64"))))

    for i in range(closures.MOST_REMEMBERED + 4):
        one(i, hx.EulerA())
    gc.collect()
    assert [ref() is None for ref in kept[0]] == [False, True]  # a fingerprint knows the function a little longer
    assert kept[-1][1]() is not None


def test_a_repeated_integrate_compiles_nothing():
    entry = hx.systems.torus()
    noise = hx.increments(entry.system, h=0.125, steps=4, seed=0)
    first = hx.integrate(entry.system, hx.Rattle(), entry.start, noise).q
    with compilations() as compiled:
        for _ in range(3):
            again = hx.integrate(entry.system, hx.Rattle(), entry.start, noise).q
    assert compiled == []
    np.testing.assert_array_equal(again, first)
    assert jnp.isfinite(again).all()
