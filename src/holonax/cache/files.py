"""The folder in which compiled programs are kept: entries are arrays by name, found again by a key.

A file is never changed: it is written under another name and then renamed, so that whoever reads sees all of it or
nothing, however many processes write.  It begins with a checksum of its key and of all that follows, by which one that
was cut short, damaged or renamed is recognised.  Since machine code is run, only files are read that belong to the
user and that nobody else can write to, in a folder of which the same is true.  What is wrong with a file or with the
folder is no error: then nothing is found, or nothing is kept, and programs are compiled as if there were no cache.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from holonax.packing import packed, unpacked

VARIABLE = "HOLONAX_CACHE"
"""The environment variable with the folder; empty, nothing is kept."""

MOST_BYTES = 2**30
"""Size of all entries, at most: what has not been used for longest goes first."""

_MAGIC = b"holonax cache 1\n"
_CHECKSUM = 32  # bytes
_ENTRY, _UNFINISHED = ".kept", ".unfinished"
_ABANDONED = 3600.0  # seconds after which an unfinished file has no writer any more


class KeptFile(NamedTuple):
    """A file of the cache: its size in bytes, and when it was last used, in seconds since the epoch."""

    path: Path
    size: int
    used: float


def _is_own(info: os.stat_result) -> bool:
    """Whether a file or a folder belongs to this user and nobody else can write to it."""
    if not hasattr(os, "geteuid"):  # where rights are inherited from the user's own folder
        return True
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@final
@dataclass(frozen=True)
class Cache:
    """Entries in a folder, which is made when the first one is kept."""

    folder: Path

    def find(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays that were kept under a key; None if there are none that can be trusted."""
        try:
            content = self._read(key)
            if content is None or content[: len(_MAGIC) + _CHECKSUM] != _head(key, content[len(_MAGIC) + _CHECKSUM :]):
                return None
            return unpacked(content[len(_MAGIC) + _CHECKSUM :])[1]
        except OSError:
            return None

    def keep(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays under a key, unless there is no room for them or the folder is not to be used."""
        content = packed({}, arrays)
        if len(content) > MOST_BYTES:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.refusal() is not None:
                return
            self._write(key, _head(key, content) + content)
            self._trim()
        except OSError:
            return

    def entries(self) -> list[KeptFile]:
        """All of them, those first that were used last."""
        found = [KeptFile(path, info.st_size, info.st_mtime) for path, info in self._files(_ENTRY)]
        return sorted(found, key=lambda entry: -entry.used)

    def clear(self) -> list[KeptFile]:
        """Remove all entries; those that were removed."""
        removed = [entry for entry in self.entries() if _remove(entry.path)]
        for path, _ in self._files(_UNFINISHED):
            _remove(path)
        return removed

    def refusal(self) -> str | None:
        """Why nothing is found or kept in the folder that there is, or None."""
        try:
            info = self.folder.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror
        if not stat.S_ISDIR(info.st_mode):
            return "it is not a folder"
        if not _is_own(info):
            return "it belongs to somebody else, or others can write to it (chmod 700)"
        return None if os.access(self.folder, os.W_OK | os.X_OK) else "nothing can be written to it"

    def _read(self, key: str) -> bytes | None:
        if not _is_own(self.folder.stat()):
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        path = self.folder / f"{key}{_ENTRY}"
        with os.fdopen(os.open(path, flags), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode) or not _is_own(info):
                return None
            content = file.read()
        with contextlib.suppress(OSError):
            os.utime(path)  # it has been used
        return content

    def _write(self, key: str, content: bytes) -> None:
        descriptor, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=self.folder)  # for nobody else to read or write
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(name).replace(self.folder / f"{key}{_ENTRY}")
        except BaseException:
            _remove(Path(name))
            raise

    def _trim(self) -> None:
        """Remove what has not been used for longest until the rest is small enough, and what nobody will finish."""
        entries = self.entries()
        size = sum(entry.size for entry in entries)
        while size > MOST_BYTES:
            entry = entries.pop()
            _remove(entry.path)
            size -= entry.size
        for path, info in self._files(_UNFINISHED):
            if time.time() - info.st_mtime > _ABANDONED:
                _remove(path)

    def _files(self, suffix: str) -> Iterator[tuple[Path, os.stat_result]]:
        """Files in the folder, as far as they are still there when they are looked at."""
        try:
            paths = list(self.folder.glob(f"*{suffix}"))
        except OSError:
            return
        for path in paths:
            with contextlib.suppress(OSError):
                yield path, path.lstat()


def _head(key: str, content: bytes) -> bytes:
    return _MAGIC + blake2b(content, digest_size=_CHECKSUM, key=key.encode()).digest()


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


_aside: ContextVar[bool] = ContextVar("_aside", default=False)


@contextlib.contextmanager
def without_cache() -> Iterator[None]:
    """Inside this context programs are compiled: nothing is looked up or kept."""
    token = _aside.set(True)
    try:
        yield
    finally:
        _aside.reset(token)


def user_cache() -> Cache | None:
    """The cache of this user; None if it is switched off or there is no place for it."""
    asked = os.environ.get(VARIABLE)
    if asked == "" or _aside.get():
        return None
    try:
        return Cache(Path(asked).expanduser() if asked else _default_folder())
    except RuntimeError:  # nobody knows where the user is at home
        return None


def _default_folder() -> Path:
    """Where programs of this platform keep what can be made again."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "holonax" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "holonax"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "holonax"
