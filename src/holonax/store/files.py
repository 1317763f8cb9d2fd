"""Files that are whole or absent, whatever happens meanwhile."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holonax.errors import StoreError


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file that appears, or takes the place of an older one, at once.

    A durable file is on the disk when this returns: it survives a power failure.  Another one may be lost or damaged by
    that, and is for what can be made again.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    with writing(path):
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.replace(part, path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data, durable=durable)
            return
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that the names of its files are on the disk; a system without that has it done by itself."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_whole(path: Path) -> bytes | None:
    """A file, or None if it is not there."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the disk into a `StoreError` that says what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = (
            "free some space and make the same call again" if full else "make the folder writable, or name another one"
        )
        raise StoreError(f"cannot write {path}: {error.strerror or error}; {remedy}") from None
