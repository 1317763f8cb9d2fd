"""Arrays that are joined from others, piece by piece: nothing needs to be joined in memory that is used so."""

from __future__ import annotations

import numpy as np

from holonax.compiler.arrays.values import MOST_PARTS, Joined, Ref, Table, known_values


def piecewise(joined: list[Ref]) -> list[Table] | None:
    """Where all of these vectors keep to one part of the arrays that they are joined from, a few times over.

    Formulas are then written for each piece (loop distribution), for which nothing needs to be joined in memory.
    """
    owners = [x.array.owner for x in joined if isinstance(x.array, Joined)]
    if not joined or any(owner is None for owner in owners):
        return None
    key = np.zeros(joined[0].table.size, np.int64)
    for x, owner in zip(joined, owners, strict=True):
        _, key = np.unique(key * MOST_PARTS + owner[x.table], return_inverse=True)  # type: ignore[index]
    number = int(key.max(initial=0)) + 1
    return [np.flatnonzero(key == i) for i in range(number)] if number <= MOST_PARTS else None


def of_piece(x: Ref, where: Table) -> Ref:
    """The entries of a vector at some places, which keep to one part."""
    own = x[where]
    if not isinstance(x.array, Joined) or x.array.owner is None:
        return own
    return x.array.of_part(int(x.array.owner[own.table[0]]), own.table)


def identity(ref: Ref) -> tuple:
    """What two references have in common if they mean the same entries."""
    if (values := known_values(ref)) is not None:
        return values.dtype.str, values.tobytes()
    return ref.array, ref.table.tobytes()


def opened(parts: list[Ref], table: Table) -> tuple[list[Ref], Table]:
    """The same with the parts of arrays that were joined before instead of these arrays."""
    inner: list[Ref] = []
    numbers: list[Table] = []
    used = 0
    for part in parts:
        if isinstance(part.array, Joined):
            inner += part.array.parts
            numbers.append(used + part.array.inverse[part.table.reshape(-1)])
            used += part.array.size
        else:
            inner.append(part.flat)
            numbers.append(used + np.arange(part.table.size))
            used += part.table.size
    return inner, np.concatenate(numbers)[table]


MOST_TIMES = 6
"""As many as a method has stages."""


def repetitions(vectors: list[Ref]) -> int:
    """How many times all of these vectors repeat their first entries, if it is a few times; otherwise 1.

    Known numbers are as quickly read as looked up, so that their repetitions alone are not worth it.
    """
    size = vectors[0].table.size
    if all(known_values(x) is not None or (x.table == x.table[0]).all() for x in vectors):
        return 1
    for times in range(MOST_TIMES, 1, -1):
        part = size // times
        if size % times == 0 and part and all(is_periodic(x, part) for x in vectors):
            return times
    return 1


def is_periodic(vector: Ref, period: int) -> bool:
    """Whether a vector consists of the same entries again and again."""
    if isinstance(vector.array, Joined) and (pieces := piecewise([vector])) is not None and len(pieces) == 1:
        vector = of_piece(vector, pieces[0])
    values = known_values(vector)
    table = vector.table if values is None else values
    return bool(table[0] == table[-period]) and np.array_equal(table[period:], table[:-period])
