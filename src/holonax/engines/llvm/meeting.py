"""Where the threads of a kernel wait for each other, as LLVM IR, and the memory for that.

A thread that waits looks again and again, since it seldom waits longer than a switch to another thread would take.
After some dozens of looks it lets others have the processor before every further one: there may be fewer free ones than
threads.
"""

from __future__ import annotations

import ctypes

import numpy as np

from holonax.engines.llvm.machine import is_x86

LOOKS = 64
"""Before a thread lets others have the processor; a microsecond or two."""

LINE = 64
"""Bytes of a line of the cache: those who arrive do not disturb those who look."""

_ARRIVED, _ROUND, _YIELD = 0, LINE, 2 * LINE  # bytes from the beginning


def meeting_place() -> np.ndarray:
    """Memory for the threads of one call: how many have arrived, how often all have met, how to yield."""
    raw = np.zeros(4 * LINE, np.uint8)
    offset = -raw.ctypes.data % LINE
    place = raw[offset : offset + 3 * LINE]
    address = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    place[_YIELD : _YIELD + 8].view(np.uint64)[0] = address
    return place


def meeting_function() -> list[str]:
    """`meet(place, threads)` returns when so many threads have called it; what they wrote before is seen by all."""
    pause = ["declare void @llvm.x86.sse2.pause()"] if is_x86() else []
    return [
        *pause,
        "define internal void @meet(ptr %place, i64 %threads) nounwind noinline {",
        "entry:",
        f"  %round.at = getelementptr i8, ptr %place, i64 {_ROUND}",
        "  %round = load atomic i64, ptr %round.at monotonic, align 8",
        "  %before = atomicrmw add ptr %place, i64 1 acq_rel",
        "  %arrived = add i64 %before, 1",
        "  %last = icmp eq i64 %arrived, %threads",
        "  br i1 %last, label %open, label %look",
        "open:",
        "  store atomic i64 0, ptr %place monotonic, align 8",
        "  %next = add i64 %round, 1",
        "  store atomic i64 %next, ptr %round.at release, align 8",
        "  ret void",
        "look:",
        "  %looks = phi i64 [ 0, %entry ], [ %looks.next, %wait ], [ %looks.next, %yield ]",
        "  %now = load atomic i64, ptr %round.at acquire, align 8",
        "  %waiting = icmp eq i64 %now, %round",
        "  br i1 %waiting, label %wait, label %met",
        "wait:",
        *(["  call void @llvm.x86.sse2.pause()"] if pause else []),
        "  %looks.next = add i64 %looks, 1",
        f"  %long = icmp uge i64 %looks.next, {LOOKS}",
        "  br i1 %long, label %yield, label %look",
        "yield:",
        f"  %yield.at = getelementptr i8, ptr %place, i64 {_YIELD}",
        "  %function = load ptr, ptr %yield.at",
        "  %ignored = call i32 %function()",
        "  br label %look",
        "met:",
        "  ret void",
        "}",
    ]
