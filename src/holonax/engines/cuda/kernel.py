"""The kernels of a lane program as CUDA C: one thread per path, the loop over steps inside."""

from __future__ import annotations

from holonax.compiler.ir.program import Program
from holonax.engines.cuda.emit import ThreadEmitter
from holonax.engines.cuda.memory import ThreadLoopEmitter

_ANEW = 'asm volatile("" : "+l"(lane));'
"""Changes nothing, as nobody but us knows: or the compiler would keep the place of every entry in registers throughout
the steps, and spill twice as much (chain of 8 beads)."""


def _emitter(program: Program) -> ThreadEmitter:
    return ThreadEmitter(program) if program.layout is None else ThreadLoopEmitter(program)


def kernel(program: Program) -> str:
    """The source of the kernel, with arguments as in `ThreadEmitter.source`.

    As in `llvm_kernel`, but a path begins with its own `next` step, and leaves there the one that comes next: `stop`,
    or one that is in doubt, of which there are `doubts`.  A trial has to be given up from where it began.  Nobody keeps
    that state, since all steps would pay for it with registers: the path goes back and walks up to there once more,
    its `last` step.  Its places in memory are computed anew where it begins (`_ANEW`).
    """
    emit, trial = _emitter(program), program.trial
    lines = emit.lines
    lines += ["long long last = stop;", "begin:", _ANEW, *emit.load(), *emit.begin(), "long long number = next[lane];"]
    lines += ["long long row = number / stride - first / stride, due = (number / stride + 1) * stride;"]
    lines += [f"const bool alive = {emit.name(program.carried[program.track.status])} == 0;"]
    lines += ["for (; number < last; ++number) {", "if (alive) {"]
    emit.items(trial.items)
    lines.append(f"if ({emit.name(trial.doubt)}) {{ last = number; atomicAdd(doubts, 1); goto begin; }}")
    lines += emit.end(trial.ends)
    lines += ["}", "if (number + 1 == due) {", *emit.record(), "++row; due += stride;", "}", "}"]
    return emit.source([*emit.leave(), "next[lane] = last;"])


def again(program: Program) -> str:
    """The source, with the same arguments, for paths whose next step is in doubt: take that one, carefully."""
    emit = _emitter(program)
    lines = emit.lines
    lines += ["long long number = next[lane];", "if (number == stop) return;", *emit.load()]
    emit.items(program.body)
    lines += emit.end({i: program.results[i] for i in program.changing})
    lines += ["if ((number + 1) % stride == 0) {", "long long row = (number + 1) / stride - first / stride - 1;"]
    lines += [*emit.record(), "}"]
    return emit.source([*emit.leave(), "next[lane] = number + 1;"])
