"""The kernel around a lane program, as LLVM IR: groups of lanes, the loop over steps, recording."""

from __future__ import annotations

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.program import Program
from holonax.engines.llvm.emit import Emitter
from holonax.engines.llvm.instructions import MEMORY
from holonax.engines.llvm.memory import MemoryEmitter
from holonax.methods.path import IN_DOUBT

KERNEL = "advance"


def kernel(program: Program, width: int, *attributes: str) -> str:
    """The module: `advance(carried, paths, fixed, buffer, size, first, stop, stride)`, with attributes for the target.

    For every group of `width` of the `size` paths, load the carried values, take the steps `first`..`stop - 1`, write q
    and p to the rows of the buffer (rows, 2n, size) at multiples of `stride`, and store the carried values.  `carried`
    points to one array per entry of the track and per parameter, `paths` to the low and high words of the path numbers,
    `fixed` to the key, h, the place of a pointer to the kernel by which a step is taken again, and what is added to a
    step's number.
    """
    emit = Emitter(program, width) if program.layout is None else MemoryEmitter(program, width)
    _Kernel(program, emit).write()
    arguments = "ptr noalias %carried, ptr noalias %paths, ptr noalias %fixed, ptr noalias %buffer, "
    arguments += "i64 %size, i64 %first, i64 %stop, i64 %stride"
    # Values that do not fit into registers must lie within a line of the cache, hence the aligned stack.
    head = [f'define void @{KERNEL}({arguments}) alignstack(64) "stackrealign" {" ".join(attributes)} {{', "entry:"]
    head += ["  %quotient = sdiv i64 %first, %stride", "  %quotient.next = add i64 %quotient, 1"]
    head += ["  %next = mul i64 %quotient.next, %stride"]
    return "\n".join([*sorted(emit.intrinsics), *head, *emit.allocations, *emit.lines])


class _Kernel:
    """The parts of a kernel, in order: what all paths share, a group of paths, its steps, what is recorded."""

    def __init__(self, program: Program, emit: Emitter) -> None:
        self.program, self.emit, self.lines, self.put = program, emit, emit.lines, emit.put
        self.carried = [program.carried[i] for i in program.changing]
        in_memory, _ = emit.stored(program.loop, program.changing)
        self.stored = {program.carried[i] for i in in_memory}
        self.in_registers = [node for node in self.carried if node not in self.stored]
        self.ends: dict[Node, str] = {}  # of a step, where they are in registers

    def write(self) -> None:
        """The body of the function."""
        self.write_fixed()
        self.lines += ["  br label %group", "group:", "  %begin = phi i64 [ 0, %entry ], [ %begin.next, %group.end ]"]
        places, begins, given = self.load_group()
        self.write_steps(begins, given)
        for node, there in zip(self.carried, places, strict=True):
            self.store(node, self.end(node), there)
        self.lines += [f"  %begin.next = add i64 %begin, {self.emit.width}"]
        self.lines += ["  %groups = icmp slt i64 %begin.next, %size"]
        self.lines += ["  br i1 %groups, label %group, label %exit", "exit:", "  ret void", "}"]

    def write_fixed(self) -> None:
        """What is the same for all paths."""
        emit, put, inputs = self.emit, self.put, self.program.inputs
        for i, node in enumerate(inputs.key):
            emit.names[node] = emit.splat("i64", put(f"load i64, ptr {self.at('i64', '%fixed', i)}"))
        kind = MEMORY[self.program.dtype]
        wide = put(f"load double, ptr {self.at('i64', '%fixed', 2)}")
        h = wide if kind == "double" else put(f"fptrunc double {wide} to {kind}")
        emit.names[inputs.h] = emit.splat(kind, h)
        self.offset = put(f"load i64, ptr {self.at('i64', '%fixed', 4)}")
        self.arrays = {i: put(f"load ptr, ptr {self.at('ptr', '%carried', i)}") for i in self.program.changing}

    def load_group(self) -> tuple[list[str], dict[Node, str], dict[int, str]]:
        """Where the carried values of a group of paths are, their values, and where its parameters are."""
        emit, put, program = self.emit, self.put, self.program
        for i, node in enumerate(program.inputs.path):
            offset = put(f"mul i64 %size, {i}")
            words = self.at("i64", "%paths", put(f"add i64 %begin, {offset}"))
            emit.names[node] = put(f"load {emit.vector('uint32')}, ptr {words}, align 8")
        places = [self.at(MEMORY[program.carried[i].dtype], self.arrays[i], "%begin") for i in program.changing]
        loaded = {node: self.load(node, there) for node, there in zip(self.carried, places, strict=True)}
        given = {}
        for i, node in enumerate(program.inputs.parameters, len(program.carried)):
            array = put(f"load ptr, ptr {self.at('ptr', '%carried', i)}")
            given[i] = self.at(MEMORY[node.dtype], array, "%begin")
            emit.names[node] = self.load(node, given[i])
            emit.store(node, emit.names[node])  # where loops over links look for it
        emit.items(program.before)
        begins = _begun(emit, loaded)
        for node, value in begins.items():
            emit.store(node, value)
        return places, begins, given

    def write_steps(self, begins: dict[Node, str], given: dict[int, str]) -> None:
        """The loop over the steps of a group."""
        emit, lines, program = self.emit, self.lines, self.program
        lines += ["  br label %before", "before:", "  br label %step", "step:"]
        lines.append("  %number = phi i64 [ %first, %before ], [ %number.next, %step.end ]")
        lines.append("  %row = phi i64 [ 0, %before ], [ %row.next, %step.end ]")
        lines.append("  %due = phi i64 [ %next, %before ], [ %due.next, %step.end ]")
        place = len(lines)
        emit.names.update({node: emit.fresh("s") for node in self.in_registers})
        emit.begin_step()
        number = self.put(f"trunc i64 {self.put(f'add i64 %number, {self.offset}')} to i32")
        emit.names[program.inputs.step] = emit.splat("i32", number)
        emit.items(program.body)
        every = program.results
        results = {program.carried[i]: every[i] for i in program.changing}
        self.ends = {node: emit.name(results[node]) for node in self.in_registers}
        emit.end_step([(node, result) for node, result in results.items() if node in self.stored])
        if program.again is not None:
            ends = {i: (program.carried[i], self.end(program.carried[i])) for i in program.changing}
            self.ends |= _take_again(emit, ends, given, self.stored)
        lines += ["  br label %step.done", "step.done:", "  %number.next = add i64 %number, 1"]
        self.write_record()
        lines += ["  %more = icmp slt i64 %number.next, %stop", "  br i1 %more, label %step, label %group.end"]
        lines.append("group.end:")
        lines[place:place] = [
            f"  {emit.names[node]} = phi {emit.vector(node.dtype)} "
            f"[ {begins[node]}, %before ], [ {self.ends[node]}, %step.end ]"
            for node in self.in_registers
        ]

    def write_record(self) -> None:
        """At multiples of the stride, q and p go to the next row of the buffer."""
        lines, put, recorded = self.lines, self.put, self.program.recorded
        lines += ["  %record = icmp eq i64 %number.next, %due"]
        lines += ["  br i1 %record, label %write, label %step.end", "write:"]
        line = put(f"mul i64 %row, {len(recorded)}")
        for k, i in enumerate(recorded):
            offset = put(f"mul i64 %size, {put(f'add i64 {line}, {k}')}")
            there = self.at(MEMORY[self.program.dtype], "%buffer", put(f"add i64 %begin, {offset}"))
            self.store(self.program.carried[i], self.end(self.program.carried[i]), there)
        lines += ["  %row.more = add i64 %row, 1", "  %due.more = add i64 %due, %stride", "  br label %step.end"]
        lines += ["step.end:", "  %row.next = phi i64 [ %row, %step.done ], [ %row.more, %write ]"]
        lines += ["  %due.next = phi i64 [ %due, %step.done ], [ %due.more, %write ]"]

    # Pieces of syntax.

    def at(self, kind: str, array: str, place: object) -> str:
        """The address of an element of an array."""
        return self.put(f"getelementptr {kind}, ptr {array}, i64 {place}")

    def load(self, node: Node, there: str) -> str:
        """The values of a node in a group of paths, from an array of all paths."""
        return self.put(f"load {self.emit.vector(node.dtype)}, ptr {there}, align {_align(node)}")

    def store(self, node: Node, value: str, there: str) -> None:
        """To such an array."""
        self.lines.append(f"  store {self.emit.vector(node.dtype)} {value}, ptr {there}, align {_align(node)}")

    def end(self, node: Node) -> str:
        """The value of a carried node at the end of a step."""
        return self.emit.name(node) if node in self.stored else self.ends[node]


def _align(node: Node) -> int:
    return 8 if node.dtype == "float64" else 4


def _begun(emit: Emitter, loaded: dict[Node, str]) -> dict[Node, str]:
    """The values `loaded`; those of functions of q that do not exist yet are computed."""
    before = dict(emit.names)
    emit.names |= loaded
    for number, operations in emit.program.beginnings:
        if number in loaded:
            for node in operations:
                emit.names[node] = emit.operation(node)
                emit.names.setdefault(emit.program.final(node), emit.names[node])  # by which others ask for it
            vector, old, new = emit.vector(number.dtype), loaded[number], emit.names[operations[-1]]
            missing = emit.put(f"fcmp uno {vector} {old}, {old}")
            chosen = emit.put(f"select {emit.vector('bool')} {missing}, {vector} {new}, {vector} {old}")
            loaded[number] = emit.names[number] = chosen
    emit.names = before
    return loaded


def _take_again(
    emit: Emitter, ends: dict[int, tuple[Node, str]], given: dict[int, str], stored: set[Node]
) -> dict[Node, str]:
    """Let paths that are in doubt after a step take it again, by a call of another kernel.

    The `ends` of the step are copied to where that kernel looks for them; paths that are not in doubt have failed for
    its purposes, so that it leaves them alone.  Parameters are read from where they are `given`.  The new names of ends
    that are not `stored`.
    """
    program, lines, put, width = emit.program, emit.lines, emit.put, emit.width
    truth, whole, entries = emit.vector("bool"), emit.vector("int32"), len(program.carried)
    emit.allocations += [
        f"  %again.values = alloca [{width} x double], i64 {entries}, align 64",
        f"  %again.places = alloca ptr, i64 {entries + len(given)}",
        f"  %again.paths = alloca {emit.vector('uint32')}, i64 2, align 64",
    ]
    at_status = program.track.status
    doubt = put(f"icmp eq {whole} {ends[at_status][1]}, splat (i32 {IN_DOUBT})")
    some = emit.any_lane(doubt)
    lines += ["  br label %tried", "tried:", f"  br i1 {some}, label %again, label %certain", "again:"]
    alone = put(f"select {truth} {doubt}, {whole} splat (i32 0), {whole} splat (i32 1)")
    places = [put(f"getelementptr [{width} x double], ptr %again.values, i64 {i}") for i in range(entries)]
    for i, there in [*enumerate(places), *given.items()]:
        lines.append(f"  store ptr {there}, ptr {put(f'getelementptr ptr, ptr %again.places, i64 {i}')}")
    for i, (node, value) in ends.items():
        value = alone if i == at_status else value
        lines.append(f"  store {emit.vector(node.dtype)} {value}, ptr {places[i]}, align 64")
    for i, node in enumerate(program.inputs.path):
        there = put(f"getelementptr {emit.vector('uint32')}, ptr %again.paths, i64 {i}")
        lines.append(f"  store {emit.vector('uint32')} {emit.name(node)}, ptr {there}, align 64")
    pointers = "ptr %again.places, ptr %again.paths, ptr %fixed, ptr %buffer"
    stop = put("add i64 %number, 1")
    never = 2**62  # to be recorded: the caller does that
    function = put(f"load ptr, ptr {put('load ptr, ptr ' + put('getelementptr i64, ptr %fixed, i64 3'))}")
    lines.append(f"  call void {function}({pointers}, i64 {width}, i64 %number, i64 {stop}, i64 {never})")
    taken = {}
    for i, (node, value) in ends.items():
        vector = emit.vector(node.dtype)
        new = put(f"load {vector}, ptr {places[i]}, align 64")
        taken[node] = put(f"select {truth} {doubt}, {vector} {new}, {vector} {value}")
        if node in stored:
            emit.store(node, taken[node])
    lines += ["  br label %certain", "certain:"]
    ends_in_registers = [(node, value) for node, value in ends.values() if node not in stored]
    return {
        node: put(f"phi {emit.vector(node.dtype)} [ {value}, %tried ], [ {taken[node]}, %again ]")
        for node, value in ends_in_registers
    }
