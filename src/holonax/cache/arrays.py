"""Arrays that follow from a traced program, kept for the next time it is traced and for the next process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from holonax.cache.files import user_cache
from holonax.cache.identity import NamelessError, name_of_values
from holonax.cache.versions import versions

Arrays = dict[str, np.ndarray]

MOST_KEPT = 32
"""Results of this process that are kept; a step is traced several times before it runs."""

_found: OrderedDict[str, Arrays | None] = OrderedDict()
_lock = Lock()


def recalled(compute: Callable[[], Arrays | None], *what: Any) -> Arrays | None:
    """The arrays that `compute` finds, or found earlier, of values that say `what` they follow from.

    None, where nothing was found, is not kept for other processes.
    """
    try:
        name = name_of_values(*what, versions())
    except NamelessError:
        return compute()
    cache = user_cache()
    found = None if cache is None else cache.find(name)
    if found is None and (found := _once(name, compute)) is not None and cache is not None:
        cache.keep(name, found)
    return found


def _once(name: str, compute: Callable[[], Arrays | None]) -> Arrays | None:
    """What this process has computed, or computes now."""
    with _lock:
        if name in _found:
            _found.move_to_end(name)
            return _found[name]
    found = compute()
    with _lock:
        _found[name] = found
        while len(_found) > MOST_KEPT:
            _found.popitem(last=False)
    return found
