"""Arrays in Zarr's format (version 3): what they are, and how a chunk of one is written.

The words in which an array is described are those of Zarr's specification, and Zarr reads what is written here.  Chunks
are written by us, since they must be on the disk before a record says so.  Each is compressed, and ends with a checksum
that every reader verifies.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.errors import StoreError
from holonax.store.files import read_whole, write_whole
from holonax.store.records import DamageError

_LEVEL, _COMPRESSOR = 5, "lz4"  # bytes of floats, sorted by significance


@final
@dataclass(frozen=True)
class Variable:
    """An array in a store.

    Attributes:
        name: of the array, and of its folder.
        dimensions: names of its axes.
        shape: its shape.
        chunks: shape of a chunk, which is a file; those at the edge are padded.
        dtype: type of its numbers.
        fill: what is read where nothing was written.
        attributes: what a reader should know, such as "long_name" and "units".
    """

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str
    fill: float = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def description(self) -> dict[str, Any]:
        """For `zarr.json`."""
        compressor = {
            "typesize": np.dtype(self.dtype).itemsize, "cname": _COMPRESSOR, "clevel": _LEVEL, "shuffle": "shuffle",
            "blocksize": 0,
        }  # fmt: skip
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN" if self.fill != self.fill else self.fill,
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "blosc", "configuration": compressor},
                {"name": "crc32c"},
            ],
            "attributes": dict(self.attributes),
            "dimension_names": list(self.dimensions),
            "storage_transformers": [],
        }

    def file(self, *index: int) -> Path:
        """Where a chunk is, in the folder of the store."""
        return Path(self.name, "c", *map(str, index))

    def empty(self) -> np.ndarray:
        """A chunk of which nothing is known yet."""
        return np.full(self.chunks, self.fill, self.dtype)

    def write(self, store: Path, index: tuple[int, ...], chunk: np.ndarray, *, durable: bool = True) -> None:
        """Write one chunk, padded if it is smaller than a whole one."""
        if chunk.shape != self.chunks:
            whole = self.empty()
            whole[tuple(map(slice, chunk.shape))] = chunk
            chunk = whole
        write_whole(store / self.file(*index), _encoded(np.ascontiguousarray(chunk, self.dtype)), durable=durable)

    def write_all(self, store: Path, values: Any) -> None:
        """Write an array that is one chunk."""
        self.write(store, (0,) * len(self.shape), np.asarray(values))

    def read(self, store: Path, index: tuple[int, ...]) -> np.ndarray | None:
        """One whole chunk; None if it was not written, `DamageError` if its checksum does not fit."""
        data = self.verified(store, index)
        if data is None:
            return None
        content = _codecs()[0].decode(data)
        return np.frombuffer(bytearray(content), self.dtype).reshape(self.chunks)

    def verified(self, store: Path, index: tuple[int, ...]) -> bytes | None:
        """The compressed bytes of a chunk, if its checksum fits."""
        data = read_whole(store / self.file(*index))
        if data is None:
            return None
        if len(data) < 4 or _checksum(data[:-4]) != data[-4:]:
            raise DamageError(str(self.file(*index)))
        return data[:-4]


def describe(store: Path, variables: Iterable[Variable], attributes: Mapping[str, Any]) -> None:
    """Write what there is in a store.

    What all arrays are is said once more at the top ("consolidated"), in the file that is written last: readers that
    look there see the arrays as they were, or as they are, together.
    """
    descriptions = {}
    for variable in variables:
        descriptions[variable.name] = variable.description()
        _write_json(store / variable.name / "zarr.json", descriptions[variable.name])
    consolidated = {"kind": "inline", "must_understand": False, "metadata": descriptions}
    told = {**attributes, _SEAL: _seal(attributes)}
    group = {"zarr_format": 3, "node_type": "group", "attributes": told, "consolidated_metadata": consolidated}
    _write_json(store / "zarr.json", group)


def described(store: Path) -> dict[str, Any]:
    """The attributes of a store."""
    data = read_whole(store / "zarr.json")
    if data is None:
        fault = (
            "is not a store: it has no zarr.json" if store.exists() else "is not there: no file or folder has that name"
        )
        raise StoreError(f"{store} {fault}")
    try:
        attributes = dict(json.loads(data)["attributes"])
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{store} is not a store: its zarr.json cannot be read") from None
    if attributes.pop(_SEAL, None) != _seal(attributes):
        raise StoreError(f"{store} is damaged: its zarr.json is not as it was written; begin another store")
    return attributes


_SEAL = "checksum"


def _seal(attributes: Mapping[str, Any]) -> int:
    """Of what a store is: one wrong digit of its seed would make another run of it."""
    return zlib.crc32(json.dumps(attributes, sort_keys=True).encode())


def _write_json(path: Path, content: Any) -> None:
    data = json.dumps(content, indent=1).encode()
    if read_whole(path) != data:
        write_whole(path, data)


def _codecs() -> tuple[Any, Any]:
    try:
        import google_crc32c
        import numcodecs
    except ImportError:
        raise StoreError("a store needs Zarr: pip install 'holonax[store]'") from None
    return numcodecs.Blosc(_COMPRESSOR, _LEVEL, numcodecs.Blosc.SHUFFLE), google_crc32c


def _encoded(chunk: np.ndarray) -> bytes:
    compressor, _ = _codecs()
    data = compressor.encode(chunk if chunk.ndim else chunk.reshape(1))
    return b"".join((data, _checksum(data)))


def _checksum(data: bytes) -> bytes:
    return int(_codecs()[1].value(data)).to_bytes(4, "little")
