"""Pairs of close points, against all distances."""

import numpy as np
import pytest

from holonax.numerics.cells import close_pairs


def by_distances(x, radius, box):
    i, j = np.triu_indices(len(x), 1)
    apart = x[i] - x[j]
    if box is not None:
        apart -= box * np.round(apart / box)
    close = (apart**2).sum(axis=1) < radius**2
    return i[close], j[close]


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("radius", [0.3, 1.1, 1.9, 20.0])
def test_all_close_pairs_are_found_in_order(dimensions, periodic, radius):
    """Also with cells that are their own neighbours, points outside the box, and far apart."""
    rng = np.random.default_rng(dimensions)
    x = rng.uniform(-9, 9, (120, dimensions))
    x[0] += 1e4
    box = np.array([4.0, 7.0, 5.0])[:dimensions] if periodic else None
    found = close_pairs(x, radius, box)
    for ours, theirs in zip(found, by_distances(x, radius, box), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(found[0]) > 0


def test_points_alone_and_points_that_coincide():
    assert len(close_pairs(np.zeros((1, 3)), 1.0)[0]) == 0
    np.testing.assert_array_equal(close_pairs(np.zeros((3, 2)), 1.0, np.full(2, 3.0)), [[0, 0, 1], [1, 2, 2]])
