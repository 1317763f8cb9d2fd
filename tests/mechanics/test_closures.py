"""What functions close over may change: redefined, rebound, mutated values are seen by every method."""

import numpy as np
import pytest

import holonax as hx
from support import heavy

gravity = 1.0
field = np.array([1.0, 2.0])
length = 1.0


def lagrangian(q, v):
    return 0.5 * v @ v - gravity * q[0] - field @ q[:2]


def constraint(q):
    return q @ q - length**2


def run(method, engine):
    system = hx.System(lagrangian, constraint, n=3)
    start = hx.start(system, [length, 0.0, 0.0])
    seen = {"energy": hx.Mean(system.energy)}
    return hx.simulate(system, method, start, t1=0.5, h=0.125, engine=engine, observe=seen)


@pytest.mark.parametrize(
    ("method", "engine"), [(hx.EulerA(), "llvm"), heavy(hx.Rattle(), "llvm"), heavy(hx.EulerA(), "xla")], ids=str
)
def test_new_values_are_seen(method, engine, monkeypatch):
    first = run(method, engine)
    monkeypatch.setitem(globals(), "gravity", 9.0)
    rebound = run(method, engine)
    assert abs(rebound.q[0, -1] - first.q[0, -1]).max() > 0.01
    np.testing.assert_allclose(rebound.observed["energy"].mean[0], 10.0)
    field[0] = 5.0
    mutated = run(method, engine)
    field[0] = 1.0
    np.testing.assert_allclose(mutated.observed["energy"].mean[0], 14.0)
    monkeypatch.setitem(globals(), "length", 2.0)
    longer = run(method, engine)
    np.testing.assert_allclose(np.linalg.norm(longer.q[0], axis=-1), 2.0, rtol=1e-14)
    monkeypatch.undo()
    np.testing.assert_array_equal(run(method, engine).q, first.q)
