"""The kernel around a lane program, as LLVM IR: groups of lanes, the loop over steps, recording."""

from __future__ import annotations

from holonax.compiler.ir.graph import Node
from holonax.compiler.passes.eager import eager
from holonax.compiler.passes.scheduled import Program
from holonax.engines.llvm.emit import Emitter
from holonax.engines.llvm.instructions import MEMORY
from holonax.engines.llvm.memory import MemoryEmitter
from holonax.methods.path import IN_DOUBT

KERNEL = "advance"

MANY = 6_000
"""Operations of a program that leaves the cache of code, so that loops are looked for in it."""


def kernel(program: Program, width: int, *attributes: str) -> str:
    """The module: `advance(carried, paths, fixed, buffer, size, first, stop, stride)`, with attributes for the target.

    For every group of `width` of the `size` paths, load the carried values, take the steps `first`..`stop - 1`, write q
    and p to the rows of the buffer (rows, 2n, size) at multiples of `stride`, and store the carried values.  `carried`
    points to one array per entry of the track and per parameter, `paths` to the low and high words of the path numbers,
    `fixed` to the key, h, the place of a pointer to the kernel by which a step is taken again, and what is added to a
    step's number.
    """
    emit = MemoryEmitter(eager(program), width) if program.schedule.size() > MANY else Emitter(program, width)
    program = emit.program
    lines, put = emit.lines, emit.put
    carried = [(i, program.carried[i], program.results[i]) for i in program.changing]
    stored = {program.carried[i] for i in emit.stored(program.loop, program.changing)[0]}
    phis = [x for x in carried if x[1] not in stored]

    def at(kind: str, array: str, place: object) -> str:
        return put(f"getelementptr {kind}, ptr {array}, i64 {place}")

    def store(node: Node, value: str, there: str) -> None:
        lines.append(f"  store {emit.vector(node.dtype)} {value}, ptr {there}, align {align(node)}")

    def at_end(node: Node) -> str:
        return emit.name(node) if node in stored else results[node]

    def align(node: Node) -> int:
        return 8 if node.dtype == "float64" else 4

    # What is the same for all paths.
    for i, node in enumerate(program.key):
        emit.names[node] = emit.splat("i64", put(f"load i64, ptr {at('i64', '%fixed', i)}"))
    kind = MEMORY[program.dtype]
    wide = put(f"load double, ptr {at('i64', '%fixed', 2)}")
    emit.names[program.h] = emit.splat(kind, wide if kind == "double" else put(f"fptrunc double {wide} to {kind}"))
    ahead = put(f"load i64, ptr {at('i64', '%fixed', 4)}")
    arrays = {i: put(f"load ptr, ptr {at('ptr', '%carried', i)}") for i, *_ in carried}

    # A group of paths.
    lines += ["  br label %group", "group:", "  %begin = phi i64 [ 0, %entry ], [ %begin.next, %group.end ]"]
    for i, node in enumerate(program.path):
        offset = put(f"mul i64 %size, {i}")
        words = at("i64", "%paths", put(f"add i64 %begin, {offset}"))
        emit.names[node] = put(f"load {emit.vector('uint32')}, ptr {words}, align 8")
    places = [at(MEMORY[node.dtype], arrays[i], "%begin") for i, node, _ in carried]
    loaded = [
        put(f"load {emit.vector(node.dtype)}, ptr {there}, align {align(node)}")
        for there, (_, node, _) in zip(places, carried, strict=True)
    ]
    given = {}  # where this group's parameters are
    for i, node in enumerate(program.parameters, len(program.carried)):
        given[i] = at(MEMORY[node.dtype], put(f"load ptr, ptr {at('ptr', '%carried', i)}"), "%begin")
        emit.names[node] = put(f"load {emit.vector(node.dtype)}, ptr {given[i]}, align {align(node)}")
        emit.store(node, emit.names[node])  # where loops over links look for it
    emit.items(program.schedule.before)
    loaded = _begun(emit, {node: value for value, (_, node, _) in zip(loaded, carried, strict=True)})
    for value, (_, node, _) in zip(loaded, carried, strict=True):
        emit.store(node, value)

    # A step.
    lines += ["  br label %before", "before:", "  br label %step", "step:"]
    lines.append("  %number = phi i64 [ %first, %before ], [ %number.next, %step.end ]")
    lines.append("  %row = phi i64 [ 0, %before ], [ %row.next, %step.end ]")
    lines.append("  %due = phi i64 [ %next, %before ], [ %due.next, %step.end ]")
    place = len(lines)
    emit.names.update({node: emit.fresh("s") for _, node, _ in phis})
    emit.begin_step()
    emit.names[program.step] = emit.splat("i32", put(f"trunc i64 {put(f'add i64 %number, {ahead}')} to i32"))
    emit.items(program.schedule.body)
    results = {node: emit.name(result) for _, node, result in phis}
    emit.end_step([(node, result) for _, node, result in carried if node in stored])
    if program.again is not None:
        results |= _take_again(emit, {i: (node, at_end(node)) for i, node, _ in carried}, given, stored)
    lines += ["  br label %step.done", "step.done:"]
    lines += ["  %number.next = add i64 %number, 1", "  %record = icmp eq i64 %number.next, %due"]
    lines += ["  br i1 %record, label %write, label %step.end", "write:"]
    line = put(f"mul i64 %row, {2 * program.n}")
    for i in range(2 * program.n):
        offset = put(f"mul i64 %size, {put(f'add i64 {line}, {i}')}")
        there = at(MEMORY[program.dtype], "%buffer", put(f"add i64 %begin, {offset}"))
        store(program.carried[i], at_end(program.carried[i]), there)
    lines += ["  %row.more = add i64 %row, 1", "  %due.more = add i64 %due, %stride", "  br label %step.end"]
    lines += ["step.end:", "  %row.next = phi i64 [ %row, %step.done ], [ %row.more, %write ]"]
    lines += ["  %due.next = phi i64 [ %due, %step.done ], [ %due.more, %write ]"]
    lines += [
        "  %more = icmp slt i64 %number.next, %stop",
        "  br i1 %more, label %step, label %group.end",
        "group.end:",
    ]
    lines[place:place] = [
        f"  {emit.names[node]} = phi {emit.vector(node.dtype)} [ {begin}, %before ], [ {results[node]}, %step.end ]"
        for (_, node, _), begin in zip(carried, loaded, strict=True)
        if node not in stored
    ]

    # What is left of it.
    for (_, node, _), there in zip(carried, places, strict=True):
        store(node, at_end(node), there)
    lines += [f"  %begin.next = add i64 %begin, {width}", "  %groups = icmp slt i64 %begin.next, %size"]
    lines += ["  br i1 %groups, label %group, label %exit", "exit:", "  ret void", "}"]
    arguments = "ptr noalias %carried, ptr noalias %paths, ptr noalias %fixed, ptr noalias %buffer, "
    arguments += "i64 %size, i64 %first, i64 %stop, i64 %stride"
    # Values that do not fit into registers must lie within a line of the cache, hence the aligned stack.
    head = [f'define void @{KERNEL}({arguments}) alignstack(64) "stackrealign" {" ".join(attributes)} {{', "entry:"]
    head += ["  %quotient = sdiv i64 %first, %stride", "  %quotient.next = add i64 %quotient, 1"]
    head += ["  %next = mul i64 %quotient.next, %stride"]
    return "\n".join([*sorted(emit.intrinsics), *head, *emit.allocations, *lines])


def _begun(emit: Emitter, loaded: dict[Node, str]) -> list[str]:
    """The values `loaded`; those of functions of q that do not exist yet are computed."""
    before = dict(emit.names)
    emit.names |= loaded
    for number, operations in emit.program.beginnings:
        if number in loaded:
            for node in operations:
                emit.names[node] = emit.operation(node)
                emit.names.setdefault(emit.program.schedule.final(node), emit.names[node])  # by which others ask for it
            vector, old, new = emit.vector(number.dtype), loaded[number], emit.names[operations[-1]]
            missing = emit.put(f"fcmp uno {vector} {old}, {old}")
            chosen = emit.put(f"select {emit.vector('bool')} {missing}, {vector} {new}, {vector} {old}")
            loaded[number] = emit.names[number] = chosen
    emit.names = before
    return list(loaded.values())


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
    at_status = 3 * program.n
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
    for i, node in enumerate(program.path):
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
