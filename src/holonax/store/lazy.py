"""Arrays on disk that are read where they are looked at."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from holonax.errors import StoreError


@final
class LazyArray(NDArrayOperatorsMixin):
    """An array of a store: indexing reads that part of it, as a NumPy array; everything else reads all of it.

    What has not been computed yet is NaN, and may be there when one looks again.
    """

    def __init__(self, store: Path, name: str) -> None:
        self.store, self.name = store, name

    @cached_property
    def _array(self) -> Any:
        try:
            import zarr
        except ImportError:
            raise StoreError("a store needs Zarr: pip install 'holonax[store]'") from None
        try:
            return zarr.open_array(self.store / self.name, mode="r", zarr_format=3)
        except (OSError, ValueError) as error:
            message = (
                f"the array {self.name} of {self.store} is missing or damaged; hx.resume({str(self.store)!r}) mends it"
            )
            raise StoreError(message) from error

    @property
    def shape(self) -> tuple[int, ...]:
        """As that of an array in memory."""
        return tuple(self._array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""
        return np.dtype(self._array.dtype)

    @property
    def ndim(self) -> int:
        """Number of its axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """What it would take in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """What NumPy would give; an index that Zarr does not know is left to NumPy."""
        try:
            return np.asarray(self._array[index])[()]
        except (IndexError, TypeError, NotImplementedError):
            return np.asarray(self)[index]
        except (ValueError, RuntimeError) as error:
            if "checksum" not in str(error):
                raise
            message = (
                f"a chunk of {self.name} in {self.store} is damaged; hx.resume({str(self.store)!r}) computes it again"
            )
            raise StoreError(message) from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on disk cannot be had without a copy")
        return np.asarray(self[(...,)], dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(function, method)(*(np.asarray(x) if x is self else x for x in inputs), **options)

    def __getattr__(self, name: str) -> Any:
        """What else an array of NumPy's can do, such as `mean`."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __repr__(self) -> str:
        return f"LazyArray {self.name} of {self.store}: shape {self.shape}, {self.dtype}"
