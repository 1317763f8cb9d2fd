"""Results on disk: a folder that is known to take them before the work begins, and files that are whole or absent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holonax.errors import HolonaxError, InputError


def prepare_folder(folder: Path) -> None:
    """Make the folder and try to write there: after a long run it would be too late to learn that it is impossible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file; name a folder" if folder.is_file() else _reason(error)
        raise InputError(f"cannot write into {folder}: {reason}") from None


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which appears at `path` once all of it is on the disk and otherwise leaves no trace."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # some file systems notice only here that they are full
        os.replace(part, path)
    except OSError as error:
        raise HolonaxError(f"cannot write {path}: {_reason(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A file of text, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode(errors="backslashreplace"))  # names of files may hold any bytes


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
