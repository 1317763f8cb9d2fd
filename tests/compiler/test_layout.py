"""Loops over the links of a chain: found in a program, laid out in memory, and the same as written out."""

from collections import defaultdict
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import compile_step
from holonax.compiler.ir.check import check
from holonax.compiler.ir.graph import Build, Loop, Table
from holonax.compiler.ir.operations import evaluate
from holonax.compiler.ir.program import Block, Inputs, Program, Rounds, pieces
from holonax.compiler.ir.target import Target
from holonax.compiler.ir.track import TrackLayout
from holonax.compiler.passes.asap import compute_as_soon_as_possible
from holonax.compiler.passes.places import MEMORY, NEXT, NOW, Places
from holonax.compiler.passes.repeats import FEWEST, Repeat, repeats
from holonax.compiler.passes.rerolling import Layout, Rolled, roll_loops
from holonax.engines import llvm
from support import heavy

BEADS = 36
METHODS = [hx.EulerA(), heavy(hx.Rattle()), heavy(hx.Kicked())]
LOOPS, WRITTEN_OUT = llvm.TARGET._replace(long=0), llvm.TARGET._replace(long=None)


@cache
def chain(method, dtype="float64", loops=True):
    e = hx.systems.chain(BEADS, 0.3)
    return compile_step(e.system, method, e.n, dtype, LOOPS if loops else WRITTEN_OUT)


def beads(kind):
    """Relatives of the chain that are not quite as regular."""

    def lagrangian(q, v):
        x, u = q.reshape(-1, 3), v.reshape(-1, 3)
        mass = jnp.ones(len(x)).at[4].set(2.0) if kind == "heavy" else jnp.ones(len(x))
        springs = jnp.sum((x[2:] - x[:-2]) ** 2) + jnp.sum((x - x[::-1]) ** 2) if kind == "springs" else 0.0
        return 0.5 * jnp.sum(mass * jnp.sum(u**2, axis=1)) - jnp.sum(x[:, 2]) - springs

    def constraint(q):
        x = q.reshape(-1, 3)
        links = jnp.diff(x, axis=0, prepend=x[-1:] if kind == "ring" else jnp.zeros((1, 3)))
        return jnp.sum(links**2, axis=1) - 1.0

    return hx.System(lagrangian, constraint=constraint, noise=lambda q: 0.3 * q, n=3 * BEADS)


def test_loops_are_found_where_operations_repeat_themselves():
    build = Build()
    x, y = (build.fresh("input", "float64") for _ in range(2))
    nodes = [x * y]
    for _ in range(FEWEST + 5):  # s <- 3 s + y, then something else
        nodes += [3.0 * nodes[-1]]
        nodes += [nodes[-1] + y]
    nodes += [nodes[-1] * nodes[3]]
    before, loop, after = repeats(nodes, lambda node: node)
    assert isinstance(loop, Repeat)
    assert (loop.period, loop.times) == (2, FEWEST + 5)
    assert [*before, *loop.nodes, *after] == nodes
    assert repeats(nodes[: 2 * FEWEST - 2], lambda node: node) == [nodes[: 2 * FEWEST - 2]]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_most_of_a_long_chain_is_loops(method):
    parts = [part for parts in chain(method).layout.parts.values() for part in parts]
    rolled = sum(len(part.body) * part.times for part in parts if isinstance(part, Rolled))
    assert rolled > 0.5 * chain(method).size


class Machine:
    """Computes a step twice, with random inputs: node by node, and as the layout says, through its memory."""

    def __init__(self, program):
        self.program, self.final, self.layout = program, program.final, program.layout or Layout(program)
        self.places = self.layout.places
        self.random = np.random.default_rng(0)
        self.truth, self.names, self.memory, self.tables = {}, {}, {}, {}
        inputs = program.inputs
        for node in (*inputs.key, *inputs.path, inputs.h, inputs.step, *program.carried):
            self.truth[node] = self.names[node] = self.input(node)
        for node in program.before:
            self.truth[node] = self.names[node] = self.compute(node, self.expected)
            self.store(node, self.truth[node])
        for node in program.carried:
            if node in self.places.of:
                self.store(node, self.names.pop(node))

    def input(self, node):
        return 0.1 * self.random.normal() if node.dtype == "float64" else np.dtype(node.dtype).type(1)

    def compute(self, node, value):
        return evaluate(node.name, node.dtype, *(value(x) for x in node.args))

    def expected(self, node):
        node = self.final(node)
        return node.value if node.is_constant else self.truth[node]

    def value(self, node):
        node = self.final(node)
        if node.is_constant or node in self.names:
            return node.value if node.is_constant else self.names[node]
        array, place = next(iter(self.places.of[node].items()))
        return self.memory[self.places.slot(array, place)]

    def store(self, node, value):
        for array, place in self.places.of.get(node, {}).items():
            self.memory[self.places.slot(array, place)] = value

    def check(self, node, value):
        np.testing.assert_equal(value, self.truth[node])

    def run(self, items):
        for piece in pieces(items):
            if isinstance(piece, Block):
                self.loop(piece)
            elif not isinstance(piece, Rounds):
                for node in piece:
                    if node.name == "entry":
                        table, k = node.value
                        self.truth[node] = self.tables.setdefault((table, k), self.input(node))
                    else:
                        self.truth[node] = self.compute(node, self.expected)
                for part in self.layout.parts[piece[0]]:
                    (self.rolled if isinstance(part, Rolled) else self.straight)(part)

    def steps(self, number):
        carried, results = self.program.carried, self.program.results
        for _ in range(number):
            with np.errstate(all="ignore"):
                self.run(self.program.body)
            ends = {carried[i]: self.expected(results[i]) for i in self.program.changing}
            self.move([(carried[i], results[i]) for i in self.program.changing], self.places.twins)
            others = {NOW: NEXT, NEXT: NOW, MEMORY: MEMORY}
            self.memory = {(others[where], i): value for (where, i), value in self.memory.items()}
            self.truth.update(ends)
            for node in (x for x in carried if self.final(x) is x):  # and no other stands for it
                self.check(node, self.value(node))
                for array, place in self.places.of.get(node, {}).items():
                    self.check(node, self.memory[self.places.slot(array, place)])

    def straight(self, nodes):
        for node in nodes:
            self.names[node] = self.truth[node] if node.name == "entry" else self.compute(node, self.value)
            self.check(node, self.names[node])
            self.store(node, self.names[node])

    def rolled(self, loop):
        kept = {name: self.value(first) for name, first, _ in loop.kept}
        for i in range(loop.times):
            here = dict(kept)
            for node, piece in loop.read.items():
                place = piece.start + piece.step * i
                if isinstance(piece.array, Table):
                    here[node] = self.tables[piece.array, place]
                else:
                    here[node] = self.memory[self.places.slot(piece.array, place)]
            for node in loop.body:
                here[node] = self.compute(node, lambda x, here=here: here[x] if x in here else self.value(x))
            for node, piece in loop.written:
                self.memory[self.places.slot(piece.array, piece.start + piece.step * i)] = here[node]
            kept = {name: here[last] for name, _, last in loop.kept}
        for inside, outside in loop.last:
            self.names[outside] = here[inside]
            self.check(outside, here[inside])
            self.store(outside, here[inside])

    def move(self, moves, twins=None):
        """Except what is already where it should be."""
        for old, new, value in [(old, self.final(new), self.value(new)) for old, new in moves]:
            if old not in self.places.of:
                self.names[old] = value
            for array, place in self.places.of.get(old, {}).items():
                there = (twins or {}).get(array, array)
                if self.places.of.get(new, {}).get(there) != place:
                    self.memory[self.places.slot(there, place)] = value

    def loop(self, block):
        """Two rounds of Newton's loop; none of a rare one."""
        loop = block.loop
        for i in block.carried:
            self.truth[loop.parameters[i]] = self.expected(loop.begin[i])
        self.move([(loop.parameters[i], loop.begin[i]) for i in block.carried])
        for _ in range(0 if loop.rare else 2):
            self.run(block.test)
            self.run(block.body)
            ends = [self.expected(loop.body[i]) for i in block.carried]
            self.truth.update(zip((loop.parameters[i] for i in block.carried), ends, strict=True))
            self.move([(loop.parameters[i], loop.body[i]) for i in block.carried])
        for i in block.carried:
            parameter, result = loop.parameters[i], loop.results[i]
            self.truth[result] = self.truth[parameter]
            if parameter in self.names:
                self.names[result] = self.names[parameter]
                self.store(result, self.names[result])
            self.check(result, self.value(result))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_value_is_found_where_it_was_put(method):
    Machine(chain(method)).steps(2)


@pytest.mark.parametrize(
    ("method", "dtype"), [(hx.EulerA(), "float64"), heavy(hx.EulerA(), "float32"), heavy(hx.Kicked(), "float64")]
)
def test_loops_and_written_out_code_agree(method, dtype):
    e, paths, runs = hx.systems.chain(BEADS, 0.3), 16, []
    states = hx.State(*(np.tile(np.asarray(x, dtype), (paths, 1)) for x in (e.start.q, e.start.p, e.start.p)))
    states.p[3] *= 0.0
    states.p[3, 1] = 1e3  # far too fast: this path fails, the others do not notice
    for loops in (True, False):
        runner = llvm.runner_of(chain(method, dtype, loops))
        carried, q, p = runner.advance(runner.begin(states, {}), range(paths), 7, 2.0**-7, 0, 12, 4)
        runs.append((q, p, *runner.fate(carried)[:2], carried[: 2 * e.n]))
    assert runs[0][2][3] != 0
    assert not runs[0][2][[0, 1, 2, 4, 15]].any()
    bound = 1e-11 if dtype == "float64" else 1e-2
    for rolled, written in zip(*runs, strict=True):
        np.testing.assert_allclose(np.asarray(rolled), np.asarray(written), rtol=0, atol=bound)


@pytest.mark.parametrize("kind", ["heavy", "springs", "ring"])
def test_relatives_of_the_chain(kind):
    machine = Machine(compile_step(beads(kind), hx.EulerA(), 3 * BEADS, "float64", LOOPS))
    assert any(isinstance(part, Rolled) for parts in machine.layout.parts.values() for part in parts)
    machine.steps(2)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_no_state_is_copied(method):
    program = chain(method)
    places, final = program.layout.places, program.final
    copies = [
        node
        for node, result in zip(program.carried, program.results, strict=True)
        for array, place in places.of.get(node, {}).items()
        if places.of.get(final(result), {}).get(places.twins.get(array, array)) != place
    ]
    assert len(copies) < 0.05 * len(program.changing)


def made_up(seed):
    """A step of random loops: arguments from the same round, the last one, or elsewhere; often almost regular."""
    random, build = np.random.default_rng(seed), Build()
    h, number = (build.fresh("input", "float64") for _ in range(2))
    outermost = Loop(build, [build.fresh("input", "float64") for _ in range(40)], build.alive)
    carried = outermost.parameters
    used_by = defaultdict(set)

    def operation(*arguments, name=None):
        name = name or str(random.choice(["add", "subtract", "multiply"]))
        node = build._new(name, "bool" if name == "less" else "float64", arguments)
        for x in arguments:
            used_by[x].add(node)
        return node

    def added_up(numbers, *others):
        """The sum of forty of them and of others, in any order, and how it comes about."""
        terms, additions = [*others, *(random.choice(numbers) for _ in range(40))], []
        while len(terms) > 1:
            additions.append(operation(*(terms.pop(random.integers(len(terms))) for _ in range(2)), name="add"))
            terms.append(additions[-1])
        return terms[0], additions

    def elsewhere(arrays, rounds):
        arrays = [array for array in arrays if len(array) >= rounds]
        array = arrays[random.integers(len(arrays))]
        start = random.integers(len(array) - rounds + 1)
        values = array[start : start + rounds][:: random.choice([1, -1])]
        if random.random() < 0.3:
            values[random.integers(rounds)] = values[random.choice([0, -1])]
        return values

    def section(arrays, rounds):
        period = random.integers(2, 5)
        names = [str(random.choice(["add", "subtract", "multiply"])) for _ in range(period)]
        kinds = [[random.choice(["same", "last", "else", "far"]) for _ in range(2)] for _ in range(period)]
        sources = [[elsewhere(arrays, rounds) for _ in range(2)] for _ in range(period)]
        backs = random.integers(0, period, (period, 2))
        done = []
        for i in range(rounds):
            for t in range(period):
                arguments = []
                for kind, source, back in zip(kinds[t], sources[t], backs[t], strict=True):
                    places = {"same": i * period + back % max(t, 1), "last": (i - 1) * period + back}
                    place = places.get(kind, (i - 3) * period + back if kind == "far" else -1)
                    arguments.append(done[place] if 0 <= place < len(done) else source[i])
                done.append(build._new(names[t], "float64", tuple(arguments)))
                for x in arguments:
                    used_by[x].add(done[-1])
        return done, [done[t::period] for t in range(period)]

    arrays, body = [carried], []
    for _ in range(4):  # only the last arrays are read again
        nodes, orbits = section(arrays, random.integers(30, 38))
        body += [*nodes, operation(nodes[-1], nodes[0])]
        arrays = [carried, *orbits]
    total, additions = added_up([*orbits[-1], *carried[:3]])
    body += additions
    begin = elsewhere(arrays, 30)
    loop, inside = Loop(build, begin, build.alive, most=2), []
    own = [*arrays, loop.parameters]
    for _ in range(4):
        nodes, orbits = section(own, 30)
        inside += [*nodes, operation(nodes[-1], nodes[0])]
        own = orbits
    loop.close(build, build.alive, own[-1])
    for x, y in zip(begin, loop.body, strict=True):
        used_by[x].add(loop)
        used_by[y].add((loop, "body"))
    after, orbits = section([*arrays, loop.results], 30)
    late, additions = added_up([*body[-100:], *loop.results[:3]], total, total)
    results = [*orbits[-1], carried[31], carried[30], *carried[32:38], total, late]
    never = operation(late, late, name="less")
    failure = Loop(build, [*results, never], build.alive, rare=True)
    outermost.close(build, build.alive, failure.close(build, failure.parameters[-1], [*carried, never])[:-1])
    for user, nodes in ((failure, failure.begin), ((failure, "body"), failure.body), (outermost, outermost.body)):
        for node in nodes:
            used_by[node].add(user)
    inputs, track = Inputs(number, (), (), h, ()), TrackLayout.of(12, 0)
    program = Program(Target("llvm", {}, most=10**6), "float64", track, build, outermost, failure, inputs)
    program.used_by, program.needed = used_by, {outermost: set(range(40))}
    program.body = [*body, Block(loop, list(range(30)), [], inside), *additions, *after, never]
    program.body.append(Block(failure, list(range(41)), [], []))
    check(program, "making it up")
    return program


def rolled(program):
    program = compute_as_soon_as_possible(program)
    check(program, "scheduling")
    return roll_loops(program)


def test_made_up_programs():
    loops, twins, moved = 0, 0, 0
    for seed in range(16):
        program = made_up(seed)
        plain, machine = Machine(program), Machine(rolled(program))
        for each in (plain, machine):
            each.steps(2)
        for node in program.carried:
            np.testing.assert_allclose(machine.truth[node], plain.truth[node], rtol=1e-9)
        loops += sum(isinstance(part, Rolled) for parts in machine.layout.parts.values() for part in parts)
        twins += len(machine.places.twins)
        moved += machine.program.body != program.body
    assert loops > 24
    assert twins > 1
    assert moved > 12


def states_in_memory():
    """Thirty states in one array, and the nodes that will replace them."""
    program = made_up(0)
    places, new = Places(program), program.results[0].value[0].begin[:30]
    places.slice(program.carried[:30])
    places.time = 1
    places.computed.update(dict.fromkeys([*new, program.body[0]], 1))
    return program, places, new


def test_new_states_lie_as_the_old_ones():
    program, places, new = states_in_memory()
    assert places.write(new[::-1]) == (1, 29, -1)
    assert places.twins == {0: 1}
    assert places.slice([*new[1:], program.carried[35]]) is None  # an old state among new ones
    assert places.slice(program.carried[1:31]).array == 2
    assert places.slice([program.body[0], *new[:20]]) == (1, -1, 1)
    places.allocate([])
    assert places.slot(0, 7)[1] == places.slot(1, 7)[1]
    assert places.slot(1, -1)[1] == 0


def test_an_array_has_one_twin():
    _, places, new = states_in_memory()
    assert places.write(new[:15]).array == 1
    assert places.write(new[15:]).array == 2
    assert places.twins == {0: 1}
    places.complete_twins()
    assert places.of[new[20]] == {2: 5}


def test_what_was_computed_before_all_steps_has_no_twin():
    program, places, new = states_in_memory()
    assert places.slice([program.inputs.h, *program.carried[:20]]) == (0, -1, 1)
    assert places.write(new).array == 1
    assert places.twins == {}


def test_states_share_memory_with_nothing():
    program, places, _ = states_in_memory()
    later = program.body[1:31]
    places.time = 2
    places.computed.update(dict.fromkeys(later, 2))
    places.write(later)
    places.allocate([])
    assert places.slot(0, 0) != places.slot(1, 0)


def test_what_stood_for_a_node_stands_for_another():
    program = made_up(0)
    old, new, x = program.body[:3]
    users = program.used_by[old] | program.used_by[new]
    program.stands_for[x] = old
    program.exchange(old, new)
    assert program.final(old) is program.final(x) is new
    assert program.used_by[new] == users


def test_kernels_of_made_up_programs():
    for seed in range(8):
        machine = Machine(rolled(made_up(seed)))
        program = machine.program
        arrays = [np.full(8, machine.truth[node]) for node in program.carried]
        function, alive = llvm.callable_kernel(llvm.machine_code(program, 8))
        pointers = np.array([array.ctypes.data for array in arrays], np.uint64)
        fixed, nothing = np.zeros(3, np.uint64), np.zeros(1, np.uint64)
        function(*(x.ctypes.data for x in (pointers, nothing, fixed, nothing)), 8, 0, 3, 2**30)
        machine.steps(3)
        for node, array in zip(program.carried, arrays, strict=True):
            np.testing.assert_allclose(array, machine.truth[node], rtol=1e-6)
        assert alive
