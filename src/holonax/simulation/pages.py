"""Pages of memory for results, asked for ahead.

A system hands memory out page by page, when a page is first written to.  A run of a GPU that takes 30 ms writes its
results in its last 3 ms, and half of these would be spent waiting for pages.  So a thread asks for them while the
device computes.  That changes no content, and where a system knows no such request nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import numpy as np

from holonax.background import in_thread

_POPULATE_WRITE = 23  # of Linux 5.14 and newer
_PAGE, _PIECE = 2**12, 2**21
_LEAST, _MOST = 2**22, 2**30
"""Bytes of all arrays: fewer are a matter of microseconds, more are slow for other reasons."""


def ask_for_pages(arrays: Iterable[np.ndarray]) -> None:
    """Ask for the memory of arrays that will be written to."""
    own = [x for x in arrays if x.nbytes > _PAGE]
    if sys.platform == "linux" and _LEAST <= sum(x.nbytes for x in own) <= _MOST:
        with suppress(RuntimeError):  # no thread can be started: whoever writes asks for the pages
            in_thread(partial(_ask, own))


def _ask(arrays: list[np.ndarray]) -> None:
    advise = ctypes.CDLL(None).madvise
    for array in arrays:
        begin = -(-array.ctypes.data // _PAGE) * _PAGE
        end = (array.ctypes.data + array.nbytes) // _PAGE * _PAGE
        for place in range(begin, end, _PIECE):
            length = min(_PIECE, end - place)
            if advise(ctypes.c_void_p(place), ctypes.c_size_t(length), _POPULATE_WRITE) != 0:
                return
