"""Loops over the links of a chain: found in the schedule, laid out in memory, and the same as written out."""

from functools import cache

import numpy as np
import pytest

import holonax as hx
from holonax.engines import llvm, llvm_kernel
from holonax.lanes.graph import Build, Table
from holonax.lanes.layout import Layout, Rolled
from holonax.lanes.operations import evaluate
from holonax.lanes.program import program
from holonax.lanes.repeats import FEWEST, Repeat, repeats
from holonax.lanes.schedule import Block, Rounds, pieces

BEADS = 36
METHODS = [hx.EulerA(), hx.Rattle(), hx.Kicked()]


@cache
def chain(method, dtype="float64"):
    e = hx.systems.chain(BEADS, 0.3)
    return program(e.system, method, e.n, dtype, llvm.TARGET)


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
    layout = Layout(chain(method))
    parts = [part for parts in layout.parts.values() for part in parts]
    rolled = sum(len(part.body) * part.times for part in parts if isinstance(part, Rolled))
    assert rolled > 0.5 * chain(method).schedule.size()


class Machine:
    """Computes a step twice, with random inputs: node by node, and as the layout says, through its memory."""

    def __init__(self, program):
        self.program, self.final, self.layout = program, program.schedule.final, Layout(program)
        self.random = np.random.default_rng(0)
        self.truth, self.names, self.memory, self.tables = {}, {}, {}, {}
        for node in (*program.key, *program.path, program.h, program.step, *program.carried):
            self.truth[node] = self.names[node] = self.input(node)
        for node in program.schedule.before:
            self.truth[node] = self.names[node] = self.compute(node, self.expected)
            self.store(node, self.truth[node])
        for node in program.carried:
            if node in self.layout.places:
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
        array, place = next(iter(self.layout.places[node].items()))
        return self.memory[self.layout.slot(array, place)]

    def store(self, node, value):
        for array, place in self.layout.places.get(node, {}).items():
            self.memory[self.layout.slot(array, place)] = value

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
                    here[node] = self.memory[self.layout.slot(piece.array, place)]
            for node in loop.body:
                here[node] = self.compute(node, lambda x, here=here: here[x] if x in here else self.value(x))
            for node, piece in loop.written:
                self.memory[self.layout.slot(piece.array, piece.start + piece.step * i)] = here[node]
            kept = {name: here[last] for name, _, last in loop.kept}
        for inside, outside in loop.last:
            self.names[outside] = here[inside]
            self.check(outside, here[inside])
            self.store(outside, here[inside])

    def move(self, moves):
        values = [(old, self.value(new)) for old, new in moves]
        for old, value in values:
            if old in self.layout.places:
                self.store(old, value)
            else:
                self.names[old] = value

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
    machine = Machine(chain(method))
    with np.errstate(all="ignore"):
        machine.run(machine.program.schedule.body)
    for i in machine.program.changing:
        machine.check(machine.program.results[i], machine.value(machine.program.results[i]))


@pytest.mark.parametrize(
    ("method", "dtype"), [(METHODS[0], "float64"), (METHODS[0], "float32"), (METHODS[2], "float64")]
)
def test_loops_and_written_out_code_agree(method, dtype, monkeypatch):
    e, paths, runs = hx.systems.chain(BEADS, 0.3), 16, []
    states = hx.State(*(np.tile(np.asarray(x, dtype), (paths, 1)) for x in (e.start.q, e.start.p, e.start.p)))
    states.p[3] *= 0.0
    states.p[3, 1] = 1e3  # far too fast: this path fails, the others do not notice
    for many in (0, 10**9):
        monkeypatch.setattr(llvm_kernel, "MANY", many)
        runner = llvm.LlvmRunner(chain(method, dtype))
        carried, q, p = runner.advance(runner.begin(states), np.arange(paths, dtype=np.uint64), 7, 2.0**-7, 0, 12, 4)
        runs.append((q, p, *runner.fate(carried)[:2], carried[: 2 * e.n]))
    assert runs[0][2][3] != 0
    assert not runs[0][2][[0, 1, 2, 4, 15]].any()
    bound = 1e-11 if dtype == "float64" else 1e-2
    for rolled, written in zip(*runs, strict=True):
        np.testing.assert_allclose(np.asarray(rolled), np.asarray(written), rtol=0, atol=bound)
