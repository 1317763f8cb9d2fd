"""Records: arrays and a few words in one file with a checksum, without pickles."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from holonax.packing import packed, unpacked
from holonax.store.files import read_whole, write_whole

LOCK = "lock"
"""The file among the records that is none."""

_HEAD = b"holonax record 1\n"


class DamageError(Exception):
    """A file whose checksum does not fit: it was cut short or changed."""


class Record(NamedTuple):
    """What was written together."""

    words: dict[str, Any]
    arrays: dict[str, np.ndarray]


@final
class Records:
    """A folder of records by name.  One is written at once: it is there with all of its parts, or it is the old one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Write one, and be sure that it is on the disk."""
        write_whole(self.folder / name, _sealed(packed(words, arrays)))

    def read(self, name: str) -> Record | None:
        """Read one; None if there is none, `DamageError` if it is not what was written."""
        data = read_whole(self.folder / name)
        return None if data is None else Record(*unpacked(_opened(data)))

    def remove(self, name: str) -> None:
        """Forget one."""
        (self.folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """All that there are, without the lock and what a process that was killed has left unfinished."""
        found = (path.name for path in self.folder.iterdir())
        return sorted(name for name in found if name != LOCK and not name.startswith("."))


def _sealed(content: bytes) -> bytes:
    """With a head, and a checksum."""
    return _HEAD + zlib.crc32(content).to_bytes(4, "little") + content


def _opened(data: bytes) -> bytes:
    """What was sealed, or `DamageError`."""
    content = data[len(_HEAD) + 4 :]
    if data != _sealed(content):
        raise DamageError
    return content
