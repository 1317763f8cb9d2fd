"""Elimination as lists of places: the solutions of LAPACK, by NumPy run by run, whatever the pattern."""

import numpy as np
import pytest

from holonax.numerics.tape import elimination_tape
from holonax.numerics.tape_factors import TapeFactors


def banded(size, width=1):
    i, j = np.indices((size, size))
    return np.abs(i - j) <= width


def net(side):
    """Neighbours in a square."""
    x, y = np.divmod(np.arange(side * side), side)
    return np.abs(x[:, None] - x) + np.abs(y[:, None] - y) <= 1


def motions_first(motions, multipliers):
    """Motions that touch nobody, and multipliers that each touch three of them but not each other."""
    size = motions + multipliers
    pattern = np.zeros((size, size), bool)
    pattern[np.arange(motions), np.arange(motions)] = True
    for row in range(multipliers):
        own = (2 * row + np.arange(3)) % motions
        pattern[motions + row, own] = pattern[own, motions + row] = True
    return pattern


def unsymmetric(size):
    return (np.random.default_rng(7).random((size, size)) < 0.07) | np.eye(size, dtype=bool)


PATTERNS = {
    "one": (np.ones((1, 1), bool), 0),
    "chain of 5": (banded(5), 0),
    "chain of 200": (banded(200), 0),
    "two neighbours": (banded(90, 2), 0),
    "net": (net(9), 0),
    "dense": (np.ones((14, 14), bool), 0),
    "motions": (motions_first(60, 25), 60),
    "unsymmetric": (unsymmetric(70), 0),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_solutions_and_pivots_are_those_of_a_dense_elimination(name):
    pattern, motions = PATTERNS[name]
    size, random = len(pattern), np.random.default_rng(1)
    rows, columns = np.nonzero(pattern)
    order = random.permutation(len(rows))  # entries may come in any order
    rows, columns = rows[order], columns[order]
    tape = elimination_tape(rows, columns, motions, size)
    entries = random.normal(size=len(rows)) + np.where(rows == columns, 6.0, 0.0)
    matrix, right = np.zeros((size, size)), random.normal(size=size)
    matrix[rows, columns] = entries
    factors = TapeFactors(tape, entries)
    np.testing.assert_allclose(factors.solve(right), np.linalg.solve(matrix, right), rtol=1e-10)
    assert sorted(tape.order) == list(range(size))
    expected, subtracted = pivots_by_rows(matrix[np.ix_(tape.order, tape.order)])
    np.testing.assert_allclose(factors.pivots, expected, rtol=1e-9)
    np.testing.assert_allclose(factors.subtracted, subtracted, rtol=1e-9, atol=1e-15)
    by_unknown = np.argsort(tape.order)
    np.testing.assert_allclose(factors.margins, (np.abs(expected) / (np.abs(expected) + subtracted))[by_unknown])
    np.testing.assert_array_equal(factors.signs, np.sign(expected)[by_unknown])
    assert not factors.singular


@pytest.mark.parametrize("name", ["net", "dense", "motions"])
def test_many_matrices_at_once(name):
    """Paths are a last axis; one of them is singular, which is no harm to the others."""
    pattern, motions = PATTERNS[name]
    size, random = len(pattern), np.random.default_rng(2)
    rows, columns = np.nonzero(pattern)
    tape = elimination_tape(rows, columns, motions, size)
    entries = random.normal(size=(len(rows), 3)) + np.where(rows == columns, 6.0, 0.0)[:, None]
    entries[:, 1] = np.where((rows == size - 1) | (columns == size - 1), 0.0, entries[:, 1])
    right = random.normal(size=(size, 3))
    factors = TapeFactors(tape, entries)
    x = factors.solve(right)
    np.testing.assert_array_equal(factors.singular, [False, True, False])
    assert factors.margins[size - 1, 1] == 0.0 or np.isnan(factors.margins[size - 1, 1])
    for path in (0, 2):
        matrix = np.zeros((size, size))
        matrix[rows, columns] = entries[:, path]
        np.testing.assert_allclose(x[:, path], np.linalg.solve(matrix, right[:, path]), rtol=1e-10)


def pivots_by_rows(matrix):
    """Gaussian elimination, one row after another: pivots, and sizes of what was subtracted from them."""
    matrix, sizes = matrix.copy(), np.zeros(len(matrix))
    for i in range(len(matrix)):
        product = np.outer(matrix[i + 1 :, i] / matrix[i, i], matrix[i])
        matrix[i + 1 :] -= product
        sizes[i + 1 :] += np.abs(np.diagonal(product[:, i + 1 :]))
    return np.diagonal(matrix), sizes


def test_a_chain_is_all_but_a_few_sums_in_stretches():
    """Of which a processor computes eight at a time, if entries come diagonal by diagonal."""
    links = np.arange(1000)
    rows, columns = np.concatenate([links, links[1:], links[:-1]]), np.concatenate([links, links[:-1], links[1:]])
    tape = elimination_tape(rows, columns, 0, 1000)
    for part in (tape.factor, tape.forward, tape.backward):
        lengths, even = part.runs[:, 1] - part.runs[:, 0], part.runs[:, 7] == 1
        assert lengths[even].sum() > 0.95 * lengths.sum()


def test_a_stretch_goes_on_in_equal_steps_of_at_most_two():
    tape = elimination_tape(*np.nonzero(banded(300, 2)), 0, 300)
    for part in (tape.factor, tape.forward, tape.backward):
        for begin, end, width, first, *_, even in part.runs.tolist():
            if even:
                terms = slice(first, first + (end - begin) * width)
                columns = [x[begin:end, None] for x in (part.out, part.start, part.scale)]
                columns += [x[terms].reshape(end - begin, width) for x in (part.left, part.right)]
                steps = np.diff(np.hstack(columns), axis=0)
                assert (steps == steps[0]).all()
                assert steps.min() >= 0
                assert steps.max() <= 2
