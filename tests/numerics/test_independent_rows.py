"""Which rows of a matrix depend on others."""

import numpy as np
import pytest

from holonax.numerics.independent_rows import Entries, dependent_rows, groups


def entries(*matrices):
    rows, columns = (np.ravel(i) for i in np.indices(matrices[0].shape))
    return Entries(rows, columns, np.array([m.ravel() for m in matrices]))


def of_rank(rank, rows, columns, seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, rank)) @ random.normal(size=(rank, columns))


@pytest.mark.parametrize("seed", range(5))
def test_as_many_are_left_as_the_rank(seed):
    matrix = of_rank(4, 9, 7, seed) * 10.0 ** np.random.default_rng(seed).integers(-200, 200, size=(9, 1))
    found = dependent_rows(entries(matrix), 1e-10)
    assert len(found) == 5
    assert max(found.values()) < 1e-13
    scaled = matrix / np.abs(matrix).max(axis=1, keepdims=True)
    assert np.linalg.matrix_rank(np.delete(scaled, sorted(found), axis=0)) == 4


def test_one_choice_serves_all_paths():
    """Rows 0 and 1 are the same on one path, 0 and 2 on another: without 0, the others are independent on both."""
    one, two, three = np.eye(4)[:3]
    found = dependent_rows(entries(np.array([one, one, two]), np.array([one, three, one])), 1e-10)
    assert list(found) == [0]


def test_a_row_that_is_wanted_is_taken_last():
    matrix = np.eye(4)[[0, 1, 1, 2, 2]]
    matrix[2, 3] = 1e-8
    found = dependent_rows(entries(matrix), 1e-6)
    assert list(found) == [2, 4]
    assert found[2] == pytest.approx(1e-8)
    assert list(dependent_rows(entries(matrix), 1e-6, wanted=[2])) == [4]


def test_rows_without_common_columns_are_looked_at_apart():
    rows, columns = np.array([0, 0, 1, 2, 2, 3, 4]), np.array([0, 1, 1, 2, 3, 3, 4])
    assert [group.tolist() for group in groups(rows, columns)] == [[0, 1], [2, 3], [4]]
    long = np.arange(2000)
    assert len(groups(np.repeat(long, 2), np.stack([long, long + 1], axis=1).ravel())) == 1
