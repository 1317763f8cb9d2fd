"""Loops of LLVM IR whose values go from round to round, written as a function of what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Carried = list[tuple[str, str]]
"""Types and names of values."""


class Writer(Protocol):
    """Who writes lines of LLVM IR."""

    lines: list[str]
    count: int

    def put(self, expression: str) -> str:
        """An instruction; the name of its value."""


def loop(
    writer: Writer,
    begin: str,
    end: str,
    carried: Carried,
    body: Callable[[str, list[str]], list[str]],
    step: int = 1,
) -> list[str]:
    """For i from `begin` to below `end`: `body(i, values)` returns the next values; the last ones."""
    writer.count += 1
    label, lines = f"for{writer.count}", writer.lines
    lines += [f"  br label %{label}.entry", f"{label}.entry:", f"  br label %{label}.head", f"{label}.head:"]
    place = len(lines)
    index = f"%{label}.i"
    names = [f"%{label}.x{i}" for i in range(len(carried))]
    lines += [f"  {index}.more = icmp slt i64 {index}, {end}"]
    lines += [f"  br i1 {index}.more, label %{label}.body, label %{label}.end", f"{label}.body:"]
    results = body(index, names)
    lines += [f"  br label %{label}.back", f"{label}.back:", f"  {index}.next = add i64 {index}, {step}"]
    lines += [f"  br label %{label}.head", f"{label}.end:"]
    phis = [f"  {index} = phi i64 [ {begin}, %{label}.entry ], [ {index}.next, %{label}.back ]"]
    for name, (kind, first), result in zip(names, carried, results, strict=True):
        phis.append(f"  {name} = phi {kind} [ {first}, %{label}.entry ], [ {result}, %{label}.back ]")
    lines[place:place] = phis
    return names


def when(writer: Writer, condition: str, body: Callable[[], None]) -> None:
    """Do something if a condition holds."""
    writer.count += 1
    label = f"when{writer.count}"
    writer.lines += [f"  br i1 {condition}, label %{label}.then, label %{label}.end", f"{label}.then:"]
    body()
    writer.lines += [f"  br label %{label}.end", f"{label}.end:"]


def choose(writer: Writer, number: str, cases: dict[int, Callable[[], None]]) -> None:
    """Do what belongs to a number, if anything does."""
    writer.count += 1
    label = f"choose{writer.count}"
    places = " ".join(f"i64 {case}, label %{label}.case{case}" for case in cases)
    writer.lines.append(f"  switch i64 {number}, label %{label}.end [ {places} ]")
    for case, body in cases.items():
        writer.lines.append(f"{label}.case{case}:")
        body()
        writer.lines.append(f"  br label %{label}.end")
    writer.lines.append(f"{label}.end:")
