"""How paths are cut into chunks."""

import pytest

from holonax.simulation.chunks import cut


def sizes(*arguments):
    chunks = [*cut(*arguments)]
    assert [path for chunk in chunks for path in chunk] == [*range(arguments[0])]  # each path once, in order
    return [len(chunk) for chunk in chunks]


def test_chunks_are_of_one_size_but_the_last():
    assert sizes(10, 4) == [4, 4, 2]
    assert sizes(3, 4) == [3]


def test_the_last_chunks_are_the_smallest():
    assert sizes(16, 2, 1) == [2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]
    assert sizes(64, 16, 4) == [16, 12, 8, 4, 4, 4, 4, 4, 4, 4]
    assert sizes(9, 8, 4) == [4, 4, 1]


@pytest.mark.parametrize("paths", [1, 127, 128, 1000])
def test_no_chunk_is_larger_than_allowed(paths):
    assert max(sizes(paths, 64, 128)) <= 64
