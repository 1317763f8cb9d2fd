"""The kernel around a lane program, as LLVM IR: groups of lanes, the loop over steps, recording."""

from __future__ import annotations

from holonax.engines.llvm_emit import MEMORY, Emitter
from holonax.lanes.program import Program

KERNEL = "advance"


def kernel(program: Program, width: int) -> str:
    """The module: `advance(carried, paths, fixed, buffer, size, first, stop, stride)`.

    For every group of `width` of the `size` paths, load the carried values, take the steps `first`..`stop - 1`, write q
    and p to the rows of the buffer (rows, 2n, size) at multiples of `stride`, and store the carried values.  `carried`
    points to one array per entry of the track, `paths` to the low and high words of the path numbers, `fixed` to the
    key and h.
    """
    emit = Emitter(program, width)
    lines, put = emit.lines, emit.put
    n, dtype = program.n, program.dtype
    pair = emit.vector("uint32")

    def splat(kind: str, scalar: str) -> str:
        one = put(f"insertelement <{width} x {kind}> poison, {kind} {scalar}, i64 0")
        return put(f"shufflevector <{width} x {kind}> {one}, <{width} x {kind}> poison, <{width} x i32> zeroinitializer")

    def at(kind: str, array: str, place: object) -> str:
        return put(f"getelementptr {kind}, ptr {array}, i64 {place}")

    for i, node in enumerate(program.key):
        emit.names[node] = splat("i64", put(f"load i64, ptr {at('i64', '%fixed', i)}"))
    kind = MEMORY[dtype]
    wide = put(f"load double, ptr {at('i64', '%fixed', 2)}")
    emit.names[program.h] = splat(kind, wide if kind == "double" else put(f"fptrunc double {wide} to {kind}"))
    arrays = [put(f"load ptr, ptr {at('ptr', '%carried', i)}") for i in range(len(program.carried))]
    lines += ["  br label %group", "group:"]
    lines.append("  %begin = phi i64 [ 0, %entry ], [ %begin.next, %group.end ]")
    for i, node in enumerate(program.path):
        offset = put(f"mul i64 %size, {i}")
        words = at("i64", "%paths", put(f"add i64 %begin, {offset}"))
        emit.names[node] = put(f"load {pair}, ptr {words}, align 8")
    places, loaded = [], []
    for array, node in zip(arrays, program.carried, strict=True):
        kind = MEMORY[node.dtype]
        places.append(at(kind, array, "%begin"))
        loaded.append(put(f"load <{width} x {kind}>, ptr {places[-1]}, align {8 if kind == 'double' else 4}"))
    emit.items(program.schedule.before)
    lines += ["  br label %before", "before:", "  br label %step", "step:"]
    lines.append("  %number = phi i64 [ %first, %before ], [ %number.next, %step.end ]")
    lines.append("  %row = phi i64 [ 0, %before ], [ %row.next, %step.end ]")
    lines.append("  %due = phi i64 [ %next, %before ], [ %due.next, %step.end ]")
    place = len(lines)
    for node in program.carried:
        emit.names[node] = emit.fresh("s")
    emit.names[program.step] = splat("i32", put("trunc i64 %number to i32"))
    emit.items(program.schedule.body)
    results = [emit.name(node) for node in program.results]
    lines += ["  br label %step.done", "step.done:"]
    lines += ["  %number.next = add i64 %number, 1", "  %record = icmp eq i64 %number.next, %due"]
    lines += ["  br i1 %record, label %write, label %step.end", "write:"]
    vector = emit.vector(dtype)
    for i in range(2 * n):
        line = put(f"mul i64 %row, {2 * n}")
        offset = put(f"mul i64 %size, {put(f'add i64 {line}, {i}')}")
        there = at(MEMORY[dtype], "%buffer", put(f"add i64 %begin, {offset}"))
        lines.append(f"  store {vector} {results[i]}, ptr {there}, align {8 if dtype == 'float64' else 4}")
    lines += ["  %row.more = add i64 %row, 1", "  %due.more = add i64 %due, %stride", "  br label %step.end"]
    lines += ["step.end:", "  %row.next = phi i64 [ %row, %step.done ], [ %row.more, %write ]"]
    lines += ["  %due.next = phi i64 [ %due, %step.done ], [ %due.more, %write ]"]
    lines += ["  %more = icmp slt i64 %number.next, %stop", "  br i1 %more, label %step, label %group.end", "group.end:"]
    for node, result, there in zip(program.carried, results, places, strict=True):
        kind = MEMORY[node.dtype]
        lines.append(f"  store {emit.vector(node.dtype)} {result}, ptr {there}, align {8 if kind == 'double' else 4}")
    lines += [f"  %begin.next = add i64 %begin, {width}", "  %again = icmp slt i64 %begin.next, %size"]
    lines += ["  br i1 %again, label %group, label %exit", "exit:", "  ret void", "}"]
    lines[place:place] = [
        f"  {emit.names[node]} = phi {emit.vector(node.dtype)} [ {begin}, %before ], [ {result}, %step.end ]"
        for node, begin, result in zip(program.carried, loaded, results, strict=True)
    ]
    arguments = "ptr noalias %carried, ptr noalias %paths, ptr noalias %fixed, ptr noalias %buffer, "
    arguments += "i64 %size, i64 %first, i64 %stop, i64 %stride"
    head = [f"define void @{KERNEL}({arguments}) {{", "entry:", "  %q = sdiv i64 %first, %stride"]
    head += ["  %q1 = add i64 %q, 1", "  %next = mul i64 %q1, %stride"]
    return "\n".join([*sorted(emit.intrinsics), *head, *lines])
