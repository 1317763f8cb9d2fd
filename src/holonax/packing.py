"""Words and arrays as one piece of memory, and back, without pickles.

A line of JSON says what the words are, and the name, type and shape of each array; the bytes of the arrays follow.
NumPy's own archives are not used because reading one compiles the text of its head as Python, which several threads of
Python 3.11 must not do at a time ("AST constructor recursion depth mismatch"): chunks of a store are read by threads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def packed(words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """As bytes.

    >>> unpacked(packed({"step": 3}, {"q": np.arange(2.0)}))
    ({'step': 3}, {'q': array([0., 1.])})
    """
    values = {name: np.asarray(array) for name, array in arrays.items()}
    kinds = [(name, x.dtype.str, x.shape) for name, x in values.items()]
    head = json.dumps({"words": dict(words), "arrays": kinds}).encode()
    return b"\n".join([head, b"".join(x.tobytes() for x in values.values())])


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The words and the arrays, which are its own and can be written to; `ValueError` if that is not what it is."""
    head, _, content = data.partition(b"\n")
    told = json.loads(head)
    arrays, first = {}, 0
    for name, kind, shape in told["arrays"]:
        array = np.frombuffer(content, kind, math.prod(shape), first).reshape(shape).copy()
        arrays[name], first = array, first + array.nbytes
    return told["words"], arrays
