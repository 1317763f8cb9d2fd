"""Threads that share a path: the same bits for any number of them, meetings where they are needed, and nobody waits."""

import gc
import signal
import threading
import time
import weakref
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import background
from holonax.compiler.arrays import solve
from holonax.compiler.arrays.program import ROUND
from holonax.compiler.arrays.sharing import ALONE, Meetings, Touch, blocks_of
from holonax.engines.llvm import array_code, array_runner, array_sharing
from holonax.engines.llvm.array_code import Code
from holonax.engines.llvm.array_runner import PATHS, ArrayRunner
from holonax.engines.llvm.pace import RARELY, WORTH_CALLING, Pace
from holonax.engines.plain import PlainRunner
from holonax.mechanics.system import State
from signals import stop
from support import heavy

H = 2.0**-6


@pytest.fixture
def small(monkeypatch):
    """Loops are shared however short they are, by as many threads as a runner says."""
    monkeypatch.setattr(array_sharing, "LEAST_WORK", 1)
    monkeypatch.setattr(array_code, "WORTH_A_MEETING", 0)
    monkeypatch.setattr(Pace, "choose", lambda _, threads, steps: threads)


def of_matrices():
    """A product of matrices of 24 and 20 rows, a factor, a long sum, and sums at numbers that the path knows."""

    def lagrangian(q, v, *, which):
        rows = jnp.sin(jnp.outer(jnp.arange(1.0, 25.0), q[:20])) / 24
        root = jnp.linalg.cholesky(rows @ rows.T + jnp.eye(24))
        held = jnp.sum(jnp.sin(1.0 + q.reshape(15, 3)[which.astype(int)]))
        return 0.5 * v @ v - jnp.sum(jnp.log(jnp.diagonal(root))) - 0.1 * held - 0.01 * jnp.sum(q**2) ** 2

    system = hx.System(
        lagrangian,
        lambda q: jnp.sum(q.reshape(15, 3) ** 2, axis=1) - 1.0,
        lambda q: 0.1 * q,
        n=45,
        parameters={"which": np.array([2.0, 7.0, 2.0, 3.0, 5.0] * 4)},
    )
    return SimpleNamespace(
        system=system, start=hx.start(system, q=np.random.default_rng(4).normal(size=45), v=np.ones(45), project=True)
    )


SYSTEMS = {
    "chain": lambda: hx.systems.chain(30),
    "net": lambda: hx.systems.net(5, 5),
    "water": lambda: hx.systems.water(8),
    "matrices": of_matrices,
    "fast chain": lambda: hx.systems.chain(9, sigma=40.0),  # some paths fail, and others are in doubt
}


def ran(runner, entry, paths, threads, steps=12, stride=4, h=H):
    """Recorded q and p, and the fate of paths, by so many threads."""
    runner.threads, start = threads, entry.start
    states = State(*(np.resize(np.asarray(x), (paths, entry.system.n)) for x in (start.q, start.p, start.guess)))
    values = {name: np.resize(x, (paths, *np.shape(x))) for name, x in entry.system.parameters.items()}
    carried = runner.begin(states, values)
    carried, q, p = runner.advance(carried, range(paths), 5, h, 0, steps, stride)
    return q, p, *runner.fate(carried)


def runner_for(entry, method, engine=ArrayRunner, **options):
    told = {"dtype": "float64", "reason": "a test"} if engine is ArrayRunner else {"dtype": "float64"}
    return engine(entry.system.form, method, entry.system.n, **told, **options)


CASES = [
    ("chain", hx.EulerA(), 1, H),
    heavy("chain", hx.EulerA(), PATHS, H),
    heavy("matrices", hx.Rattle(), 1, H),
    heavy("fast chain", hx.EulerA(), 5, H),
    heavy("chain", hx.Lobatto(3), 1, H),
    heavy("water", hx.Langevin(1.0, 0.5, metropolis=True), 2, 1e-3),
    heavy("net", hx.Kicked(), 1, H),
    heavy("net", hx.Rattle(), PATHS, H),
    heavy("water", hx.Rattle(), 1, 1e-3),
    heavy("water", hx.Langevin(1.0, 0.5), 1, 1e-3),
    heavy("matrices", hx.EulerB(), PATHS, H),
]


@pytest.mark.parametrize(("name", "integrator", "paths", "h"), CASES, ids=str)
@pytest.mark.usefixtures("small")
def test_any_number_of_threads_gives_the_same_bits(name, integrator, paths, h, monkeypatch):
    """As a kernel that cannot be shared, whose steps are compared with the plain engine elsewhere."""
    entry = SYSTEMS[name]()
    shared = runner_for(entry, integrator)
    found = [ran(shared, entry, paths, threads, h=h) for threads in (1, 2, 3)]
    assert all(code.shared for code in shared.codes.values())
    monkeypatch.setattr(array_code, "WORTH_A_MEETING", np.inf)
    alone = runner_for(entry, integrator)
    expected = ran(alone, entry, paths, 3, h=h)
    assert not any(code.shared for code in alone.codes.values())
    for result in found:
        assert all(np.array_equal(x, y) for x, y in zip(result, expected, strict=True))
    assert np.isfinite(expected[0]).all()
    assert (0 < np.count_nonzero(expected[2]) < paths) == (name == "fast chain")


@pytest.mark.study
@pytest.mark.usefixtures("small")
def test_steps_that_threads_share_are_those_of_the_plain_engine():
    entry, method = hx.systems.chain(20), hx.Rattle()
    q, p, *_ = ran(runner_for(entry, method), entry, 1, 2)
    plain = runner_for(entry, method, PlainRunner)
    states = State(*(np.resize(np.asarray(x), (plain.chunk, entry.system.n)) for x in entry.start[:3]))
    _, expected_q, expected_p = plain.advance(plain.begin(states, {}), range(plain.chunk), 5, H, 0, 12, 4)
    assert np.abs(q - expected_q[:3, :1]).max() < 1e-12
    assert np.abs(p - expected_p[:3, :1]).max() < 1e-12


# Who waits for whom.


def touched_by(touch, threads):
    """By brute force: the entries that each thread touches."""
    blocks = [range(t * touch.blocks // threads, (t + 1) * touch.blocks // threads) for t in range(threads)]
    owner = [i // ROUND for i in range(len(touch.table))]
    if touch.blocks == ALONE:
        return [set(touch.table.tolist()), *(set() for _ in range(threads - 1))]
    return [{int(e) for e, block in zip(touch.table, owner, strict=True) if block in own} for own in blocks]


def collide(write, other):
    """Whether for some number of threads one of them writes what another one touches."""
    for threads in range(2, 6):
        writes, others = touched_by(write, threads), touched_by(other, threads)
        if any(writes[a] & others[b] for a in range(threads) for b in range(threads) if a != b):
            return True
    return False


def test_threads_meet_where_one_needs_what_another_wrote():
    random, due = np.random.default_rng(0), []
    for _ in range(400):
        rounds = random.choice([9, 16, 40, 41])
        tables = [random.choice([np.arange(64), random.permutation(64)]) for _ in range(2)]
        sizes = [rounds, random.choice([rounds, 24])]
        own = [random.choice([ALONE, blocks_of(size)]) for size in sizes]
        write, other = (
            Touch("%frame", 8, 80, "float64", table[:size], blocks)
            for table, size, blocks in zip(tables, sizes, own, strict=True)
        )
        meetings = Meetings()
        meetings.note([], [write])
        due.append(meetings.is_due([other], []))
        assert due[-1] or not collide(write, other)
        meetings = Meetings()
        meetings.note([other], [])
        assert meetings.is_due([], [write]) == due[-1]
    assert 0 < sum(due) < len(due)


def test_threads_go_on_with_what_is_their_own():
    one = Touch("%frame", 8, 80, "float64", np.arange(60), blocks_of(60))
    meetings = Meetings()
    meetings.note([one], [one])
    assert not meetings.is_due([one], [one])
    assert not meetings.is_due([one._replace(memory="%next")], [one._replace(begin=80, end=160)])
    assert meetings.is_due([one._replace(begin=16)], [])
    assert meetings.is_due([one._replace(dtype="float32")], [])
    assert meetings.is_due([one._replace(table=None)], [])
    assert meetings.is_due([one._replace(table=np.arange(60)[::-1])], [])


# Threads.


def test_calls_that_need_each_other_run_at_once():
    meeting = threading.Barrier(3, timeout=30)

    def call(number):
        meeting.wait()
        return 10 + number

    assert background.at_once(call, 3) == 10


def test_none_begins_if_one_cannot(monkeypatch):
    begun, start, started = [], threading.Thread.start, []

    def failing(thread):
        started.append(thread)
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        start(thread)

    class NoneIdle(list):  # so that all three are new, also if one of an earlier test becomes idle now
        def pop(self):
            raise IndexError

    monkeypatch.setattr(threading.Thread, "start", failing)
    monkeypatch.setattr(background, "_idle", NoneIdle())
    monkeypatch.setattr(background, "_underway", set())
    with pytest.raises(RuntimeError, match="start new thread"):
        background.at_once(begun.append, 3)
    end = time.monotonic() + 30
    while background._underway:
        assert time.monotonic() < end, "a thread still waits for the one that could not be started"
        time.sleep(0.01)
    assert begun == []


@pytest.mark.study
def test_a_path_that_cannot_begin_to_move_is_in_doubt_for_all_threads(small, monkeypatch):
    """Though its constraint holds where it is: every pivot counts as bad, and every step is the plain engine's."""
    monkeypatch.setattr(solve, "near_signs", lambda equations: np.full(equations.tape.size, -1.0))
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: jnp.sum((q[:6] - q[6:]) ** 2) - 1.0, n=12)
    start = hx.start(system, q=np.linspace(-1, 1, 12), v=0.3 * np.ones(12), project=True)
    rod, method = SimpleNamespace(system=system, start=start), hx.Langevin(1.0, 0.5)
    expected = ran(runner_for(rod, method, PlainRunner), rod, 1, 1, steps=4)
    runner = runner_for(rod, method)
    for threads in (1, 2):
        found = ran(runner, rod, 1, threads, steps=4)
        np.testing.assert_allclose(found[0], expected[0][:1], rtol=0, atol=1e-12)


def test_working_memory_goes_with_the_run(monkeypatch):
    """Though the program stays, and the threads do."""
    frames, new_frame = [], Code.new_frame

    def noted(code):
        frame = new_frame(code)
        frames.append(weakref.ref(frame))
        return frame

    monkeypatch.setattr(Code, "new_frame", noted)
    e = hx.systems.chain(130)
    run = hx.simulate(e.system, hx.EulerA(), e.start, t1=3 * 2.0**-6, h=2.0**-6, paths=11, progress=False)
    assert "loops over arrays" in run.reason
    assert len(frames) == 2  # one for each chunk, of eight paths and of three
    gc.collect()
    end = time.monotonic() + 30
    while any(frame() is not None for frame in frames):
        assert time.monotonic() < end, "somebody keeps it"
        time.sleep(0.01)


def test_the_faster_way_is_taken_and_the_other_rarely():
    pace = Pace()
    taken = []
    for _ in range(200):
        taken.append(pace.choose(4, 10))
        pace.note(taken[-1], 10, 0.5 if taken[-1] == 4 else 1.0)
    assert taken[:3] == [1, 4, 4]
    assert 1 <= taken[3:].count(1) <= 200 / RARELY
    for _ in range(3 * RARELY):  # another program has begun
        taken.append(pace.choose(4, 10))
        pace.note(taken[-1], 10, 9.0 if taken[-1] == 4 else 1.0)
    assert taken[-RARELY:].count(1) >= RARELY - 1


def test_no_threads_are_started_for_a_few_short_steps():
    pace = Pace()
    for _ in range(10):
        pace.note(1, 10, 0.1 * WORTH_CALLING)
        assert pace.choose(4, 50) == 1
    assert pace.choose(4, 200) == 4


@pytest.mark.usefixtures("small")
def test_idle_cores_share_a_path_and_the_run_says_so(monkeypatch):
    monkeypatch.setattr(array_runner, "cores", lambda: 3)
    chain = hx.systems.chain(130)
    told = {"h": H, "t1": 4 * H, "save_every": None, "engine": "llvm"}
    alone = hx.simulate(chain.system, hx.EulerA(), chain.start, paths=1, **told)
    assert "up to 3 threads to a path" in alone.reason
    many = hx.simulate(chain.system, hx.EulerA(), chain.start, paths=3, **told)
    assert "threads" not in many.reason
    assert np.array_equal(alone.state.q, jax.tree.map(lambda x: x[:1], many.state.q))
    assert "which share a single path" in repr(hx.explain(chain.system, hx.EulerA(), engine="llvm"))


def test_short_loops_are_left_to_one_thread():
    chain = hx.systems.chain(130)
    runner = runner_for(chain, hx.EulerA())
    ran(runner, chain, 1, 2)
    assert not any(code.shared for code in runner.codes.values())


@pytest.mark.study
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_an_interrupt_is_answered_while_threads_share_a_path(number, tmp_path):
    """`stop` fails if the process does not say so and end within some seconds."""
    command = ("run", "--t1", "1000", "--h", "2^-10", "--paths", "1", "-m", "EulerA")
    *_, complete = stop(command, number, 15.0, tmp_path, tmp_path / "out", entry="hx.systems.chain(3000)")
    assert complete == 0
