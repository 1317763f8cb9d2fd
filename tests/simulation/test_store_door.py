"""Samples and studies go through the same door as runs: what is done of them is not done again."""

import numpy as np
import pytest

import holonax as hx
from holonax.sampling import sample as sampling
from holonax.simulation import keeping
from holonax.store.ledger import Ledger
from holonax.studies import lockstep


def draw(**options):
    arguments = {"chains": 8, "draws": 60, "warmup": 60, "thin": 2, "seed": 4, "progress": False, **options}
    return hx.sample(lambda q: -q[2], lambda q: q @ q - 1.0, [1.0, 0.0, 0.0], **arguments)


def test_warm_up_and_draws_go_on(tmp_path, monkeypatch):
    whole, store = draw(), tmp_path / "samples.zarr"
    simulate, rounds = sampling.simulate, []

    def interrupted(*arguments, **options):
        rounds.append(1)
        if len(rounds) in (5, 9, 19):
            raise KeyboardInterrupt
        return simulate(*arguments, **options)

    monkeypatch.setattr(sampling, "simulate", interrupted)
    for _ in range(3):
        with pytest.raises(hx.Interrupted, match=r"the same call of hx\.sample with store="):
            draw(store=store)
    run = draw(store=store)
    assert len(rounds) == 3 + sampling.ROUNDS + 1  # none of them twice
    assert run.q.tobytes() == whole.q.tobytes()
    assert (run.step_size, run.energy_error) == (whole.step_size, whole.energy_error)
    more = draw(store=store, draws=100)
    assert len(rounds) == 3 + sampling.ROUNDS + 2
    assert more.q.tobytes() == draw(draws=100).q.tobytes()
    with pytest.raises(hx.InputError, match="another warmup: seed = 5 instead of 4"):
        draw(store=store, seed=5)
    assert hx.open(store).method == hx.Langevin(1.0, 1.0, metropolis=True, newton=hx.Newton(max_iterations=10))


def study(**options):
    e = hx.systems.pendulum()
    arguments = {"t1": 0.5, "h": [2**-4, 2**-5], "paths": 600, "refine": 4, "progress": False, **options}
    return hx.strong_order(e.system, hx.EulerA(), e.start, **arguments)


@pytest.mark.study
def test_studies_go_on(tmp_path, monkeypatch):
    store, whole, written = tmp_path / "study.zarr", study(), []
    monkeypatch.setattr(lockstep, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(lockstep, "_STEPS_PER_CALL", 16)
    monkeypatch.setattr(lockstep, "cores", lambda: 1)  # or a second thread would write until it is told to stop
    write = Ledger.write

    def until_killed(ledger, name, words, arrays):
        write(ledger, name, words, arrays)
        written.append((name, words))
        if len(written) in (5, 8):
            raise keeping.Stopped

    monkeypatch.setattr(Ledger, "write", until_killed)
    for _ in range(2):
        with pytest.raises(keeping.Stopped):
            study(store=store)
    found = study(store=store)
    for name in ("q", "p"):
        np.testing.assert_array_equal(found[name].error, whole[name].error)
    done = [name for name, _ in written if name.startswith("chunk-")]
    assert sorted(done) == ["chunk-0", "chunk-1", "chunk-2"]
    steps = [words["step"] for name, words in written if name == "carry-0"]
    assert steps == sorted(steps)
    more = study(store=store, paths=1000)
    np.testing.assert_array_equal(more["q"].error, study(paths=1000)["q"].error)
    e = hx.systems.pendulum()
    with pytest.raises(hx.InputError, match="another study: methods"):
        hx.strong_order(e.system, hx.EulerB(), e.start, t1=0.5, h=[2**-4, 2**-5], paths=600, refine=4, store=store)
    with pytest.raises(hx.InputError, match="another study: kind = 'weak' instead of 'strong'"):
        hx.weak_order(
            e.system, hx.EulerA(), e.start, t1=0.5, h=[2**-4, 2**-5], paths=600, refine=4, store=store,
            observables={"z": lambda q, p: q[2]},
        )  # fmt: skip


def test_weak_studies_are_kept(tmp_path):
    e = hx.systems.oscillator()
    arguments = {"t1": 0.5, "h": [0.25, 0.125], "paths": 300, "observables": {"q": lambda q, p: q[0]}, "refine": 2}
    found = [
        hx.weak_order(e.system, hx.EulerA(), e.start, **arguments, store=store)
        for store in (None, tmp_path / "study.zarr", tmp_path / "study.zarr")
    ]
    assert found[0]["q"].error.tolist() == found[1]["q"].error.tolist() == found[2]["q"].error.tolist()
    with pytest.raises(hx.InputError, match="holds something else than a warmup"):
        hx.sample(lambda q: -q @ q, None, [0.0], store=tmp_path / "study.zarr", progress=False)
