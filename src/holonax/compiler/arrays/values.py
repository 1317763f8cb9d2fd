"""What an array program computes: arrays of numbers, so many for each path.

An array is defined by one formula for all of its entries, and by tables that say which entries of other arrays enter:
a thousand rods are one formula and a table of two thousand beads.  Nothing here is as long as the system but tables.

What only moves entries makes no array: a `Ref` is an array with a table of the entries that are meant, and moving is
done with the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from holonax.compiler.arrays.kinds import Kind

Table = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers of entries."""

MOST_PARTS = 4
"""Parts of joined arrays that formulas are written for one by one."""


class Array:
    """Numbers of one type for each path.  Two arrays are equal only if they are the same."""

    size: int
    dtype: str

    @property
    def operands(self) -> tuple[Ref, ...]:
        """What is computed before."""
        return ()

    @property
    def sources(self) -> tuple[Array, ...]:
        """The arrays of these."""
        return tuple(x.array for x in self.operands)

    @property
    def all(self) -> Ref:
        """All entries, as a vector."""
        return Ref(self, np.arange(self.size))

    @property
    def one(self) -> Ref:
        """The only entry, as a number."""
        return Ref(self, np.zeros((), np.int64))


@final
@dataclass(frozen=True, eq=False)
class Ref:
    """Some entries of an array, in the shape of the table."""

    array: Array
    table: Table

    @property
    def flat(self) -> Ref:
        """As a vector."""
        return Ref(self.array, self.table.reshape(-1))

    def __getitem__(self, place: Any) -> Ref:
        return Ref(self.array, np.asarray(self.table[place]))

    def to(self, shape: tuple[int, ...]) -> Ref:
        """Repeated along missing axes, and those of length 1."""
        return Ref(self.array, np.broadcast_to(self.table, shape))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Given(Array):
    """What is in memory when a step begins: the track, parameters, the step's number."""

    size: int
    dtype: str
    name: str


@final
@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Array):
    """Known numbers, the same for all paths."""

    values: np.ndarray

    @property
    def size(self) -> int:  # type: ignore[override]
        """Of the values."""
        return len(self.values)

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Of the values."""
        return self.values.dtype.name


@final
@dataclass(frozen=True, eq=False, repr=False)
class Formula(Array):
    """One formula for all entries: entry i is `kind` of the i-th entries of all `arguments`."""

    kind: Kind
    arguments: tuple[Ref, ...]
    size: int

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Of the formula."""
        return self.kind.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The arguments."""
        return self.arguments


@final
@dataclass(frozen=True, eq=False, repr=False)
class Combined(Array):
    """Sums, or largest of, ...: entry i combines row i of the `terms`, whose table has two axes."""

    operation: str
    terms: Ref

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of rows."""
        return len(self.terms.table)

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """That of the terms."""
        return self.terms.array.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The terms."""
        return (self.terms,)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Joined(Array):
    """Entries of several arrays side by side: those of `parts[i]` stand at `places[i]`, no place being left out."""

    parts: tuple[Ref, ...]
    places: tuple[Table, ...]
    size: int

    @cached_property
    def owner(self) -> Table | None:
        """The number of the part that each entry belongs to, if there are a few parts, each an interval."""
        if len(self.parts) > MOST_PARTS or any((np.diff(places) != 1).any() for places in self.places):
            return None
        numbers = np.empty(self.size, np.int64)
        for i, places in enumerate(self.places):
            numbers[places] = i
        return numbers

    @cached_property
    def inverse(self) -> Table:
        """Where each entry is among those of all parts, one after another."""
        numbers = np.empty(self.size, np.int64)
        numbers[np.concatenate(self.places)] = np.arange(self.size)
        return numbers

    def of_part(self, part: int, table: Table) -> Ref:
        """Entries that all belong to one part."""
        return self.parts[part][table - self.places[part][0]]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """That of the parts."""
        return self.parts[0].array.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The parts."""
        return self.parts


@final
@dataclass(frozen=True, eq=False, repr=False)
class Selected(Array):
    """Entries of an array in memory at numbers that the path knows: entry i is entry `index[i]` of `whole`."""

    whole: Array
    index: Ref

    @property
    def size(self) -> int:  # type: ignore[override]
        """As many as there are numbers."""
        return self.index.table.size

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """That of the source."""
        return self.whole.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The source and the numbers."""
        return self.whole.all, self.index


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scattered(Array):
    """Sums of terms at numbers that the path knows: entry i is the sum, in order, of the terms whose `index` is i.

    Numbers are from 0 to `size`; terms with the last one are left out.
    """

    terms: Ref
    index: Ref
    size: int

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """That of the terms."""
        return self.terms.array.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The terms and their numbers."""
        return self.terms, self.index


@final
@dataclass(frozen=True, eq=False, repr=False)
class DenseArray(Array):
    """Matrices that stay matrices: what loops over rows and columns make of whole matrices in memory.

    The `operation` is "product", of `left` (rows, inner) and `right` (inner, columns); "substitution", which finds the
    X with left X = right, where `left` is a lower triangle (rows, rows); or "cholesky", the lower factor of `left`.
    Matrices are stored row by row, `batches` of them one after another.
    """

    operation: str
    left: Array
    right: Array | None
    batches: int
    rows: int
    inner: int
    columns: int

    @property
    def size(self) -> int:  # type: ignore[override]
        """That of the results."""
        return self.batches * self.rows * self.columns

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """That of the matrices."""
        return self.left.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The matrices."""
        return (self.left.all,) if self.right is None else (self.left.all, self.right.all)


def fixed(values: Any) -> Ref:
    """Known numbers, in their shape."""
    values = np.asarray(values)
    if values.size and (values.reshape(-1)[0] == values).all():
        return Ref(Fixed(values.reshape(-1)[:1].copy()), np.zeros(values.shape, np.int64))
    return Ref(Fixed(values.reshape(-1).copy()), np.arange(values.size).reshape(values.shape))


def known_values(ref: Ref) -> np.ndarray | None:
    """The numbers, if they are known."""
    return ref.array.values[ref.table] if isinstance(ref.array, Fixed) else None


def known_number(ref: Ref) -> Any:
    """The number that all entries are, if it is known and they are the same; otherwise None."""
    values = known_values(ref)
    if values is None or values.size == 0:
        return None
    first = values.reshape(-1)[0]
    return first if (values == first).all() else None


def neutral(operation: str, dtype: str) -> Any:
    """What an operation combines with any number of a type without changing it."""
    if dtype not in ("float64", "float32", "bool") and operation in ("maximum", "minimum"):
        return np.iinfo(dtype).min if operation == "maximum" else np.iinfo(dtype).max
    return {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf, "and": True, "or": False}[operation]
