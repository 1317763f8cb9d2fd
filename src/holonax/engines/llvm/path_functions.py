"""Functions of a module of LLVM IR whose numbers are those of one path, or of a vector of paths."""

from __future__ import annotations


class PathFunctions:
    """Pieces of syntax, for numbers of `kind` (double or float) and so many paths."""

    def __init__(self, kind: str, paths: int) -> None:
        self.kind, self.paths = kind, paths
        self.type = kind if paths == 1 else f"<{paths} x {kind}>"
        self.truth = "i1" if paths == 1 else f"<{paths} x i1>"
        self.byte = "i8" if paths == 1 else f"<{paths} x i8>"
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.count = 0

    def put(self, expression: str) -> str:
        """An instruction; the name of its value."""
        self.count += 1
        self.lines.append(f"  %t{self.count} = {expression}")
        return f"%t{self.count}"

    def entry(self, base: str, place: str) -> str:
        """The address of an entry."""
        lanes = place if self.paths == 1 else self.put(f"mul i64 {place}, {self.paths}")
        return self.put(f"getelementptr {self.kind}, ptr {base}, i64 {lanes}")

    @property
    def align(self) -> int:
        """Of an entry in memory."""
        return min(64, (8 if self.kind == "double" else 4) * self.paths)

    def load(self, base: str, place: str) -> str:
        """An entry."""
        return self.put(f"load {self.type}, ptr {self.entry(base, place)}, align {self.align}")

    def store(self, base: str, place: str, value: str) -> None:
        """Write an entry."""
        self.lines.append(f"  store {self.type} {value}, ptr {self.entry(base, place)}, align {self.align}")

    def call(self, function: str, *arguments: str, type: str | None = None) -> str:
        """One of LLVM's functions, of numbers of one type."""
        type = type or self.type
        size = 64 if self.kind == "double" else 32
        suffix = f"v{type[1:].split()[0]}f{size}" if type.startswith("<") else f"f{size}"
        name = f"@llvm.{function}.{suffix}"
        self.declared.add(f"declare {type} {name}({', '.join([type] * len(arguments))})")
        return self.put(f"call {type} {name}({', '.join(f'{type} {x}' for x in arguments)})")

    def minus_product(self, x: str, y: str, z: str, type: str | None = None) -> str:
        """The difference x - y z, rounded once."""
        return self.call("fma", self.put(f"fneg {type or self.type} {y}"), z, x, type=type)

    def absolute(self, x: str) -> str:
        """|x|."""
        return self.call("fabs", x)

    def spread(self, scalar: str, type: str | None = None) -> str:
        """A scalar for all paths, or for all entries of another type of vector."""
        type = type or self.type
        if not type.startswith("<"):
            return scalar
        one = self.put(f"insertelement {type} poison, {self.kind} {scalar}, i64 0")
        width = type[1:].split()[0]
        return self.put(f"shufflevector {type} {one}, {type} poison, <{width} x i32> zeroinitializer")

    def constant(self, value: float, type: str | None = None) -> str:
        """A number for all paths."""
        return f"splat ({self.kind} {value:.1f})" if (type or self.type).startswith("<") else f"{value:.1f}"
