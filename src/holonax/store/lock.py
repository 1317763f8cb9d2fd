"""A lock, so that one process at a time writes a store."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holonax.errors import StoreError
from holonax.store.files import read_whole, writing

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACE = Path("/proc/self/ns/pid")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock, a file that says who holds it.  One of a process that is no more is stale, and taken away."""
    own = _here() | {"key": uuid.uuid4().hex}
    while not _created(path, own):
        holder = _holder(path)
        if holder is None:
            continue  # given back meanwhile
        if not _is_stale(holder):
            raise StoreError(
                f"{path.parent} is being written by process {holder.get('pid')} on {holder.get('host')}; wait for it, "
                f"or, if it is known to be gone, delete {path}"
            )
        _take_away(path, holder)
    try:
        yield
    finally:
        _take_away(path, own)


def is_held(path: Path) -> bool:
    """Whether somebody who is alive, as far as one can see from here, holds the lock."""
    holder = _holder(path)
    return holder is not None and not _is_stale(holder)


def _created(path: Path, own: dict[str, Any]) -> bool:
    """Make the file with all that is in it, unless there is one: a link is made at once, or not at all."""
    part = path.with_name(f".lock.{own['key']}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_text(json.dumps(own))
            os.link(part, path)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
    return True


def _holder(path: Path) -> dict[str, Any] | None:
    data = read_whole(path)
    try:
        return None if data is None else dict(json.loads(data))
    except (TypeError, ValueError):
        return {}  # of nobody


def _take_away(path: Path, holder: dict[str, Any]) -> None:
    """Remove the lock of this holder; of two processes that find it stale, only one renames it."""
    aside = path.with_name(f".lock.{uuid.uuid4().hex}")
    try:
        os.rename(path, aside)
    except OSError:
        return
    if _holder(aside) != holder and not path.exists():
        os.rename(aside, path)  # it was a new one
    aside.unlink(missing_ok=True)


def _here() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "boot": _boot(), "space": _space(), "began": _began(pid)}


def _boot() -> str:
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


def _space() -> str:
    """Which numbers of processes are meant: a container has its own, even under the name of its host."""
    return os.readlink(_SPACE) if _SPACE.is_symlink() else ""


def _began(pid: int) -> str:
    """When a process began, in clock ticks since boot; "" if there is no such process, or the system does not tell."""
    file = Path(f"/proc/{pid}/stat")
    try:
        return file.read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_stale(holder: dict[str, Any]) -> bool:
    """Whether its process is known to be gone; what runs on another host is not known from here."""
    if not {"host", "pid", "boot", "began"} <= holder.keys():
        return True
    if holder["host"] != socket.gethostname():
        return False
    if holder["boot"] != _boot():
        return True
    if holder.get("space", _space()) != _space():
        return False
    if holder["began"]:
        return _began(holder["pid"]) != holder["began"]
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
