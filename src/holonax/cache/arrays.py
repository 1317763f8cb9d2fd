"""Arrays that follow from a traced program, kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holonax.cache.files import user_cache
from holonax.cache.identity import NamelessError, name_of_values
from holonax.cache.versions import versions

Arrays = dict[str, np.ndarray]


def recalled(compute: Callable[[], Arrays | None], *what: Any) -> Arrays | None:
    """The arrays that `compute` finds, or found in an earlier process, of values that say `what` they follow from.

    None, where nothing was found, is not kept.
    """
    cache = user_cache()
    if cache is None:
        return compute()
    try:
        name = name_of_values(*what, versions())
    except NamelessError:
        return compute()
    found = cache.find(name)
    if found is None and (found := compute()) is not None:
        cache.keep(name, found)
    return found
