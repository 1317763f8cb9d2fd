"""Parts of some work, kept by name, so that they need not be done again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.errors import InputError, StoreError, shown
from holonax.store.lock import locked
from holonax.store.records import LOCK, DamageError, Record, Records
from holonax.warn import warn


def folder_of(store: Any) -> Path:
    """The folder that is named, if a store can be there."""
    if not isinstance(store, (str, PathLike)) or not str(store) or "\0" in str(store):
        raise InputError(f'store = {shown(store)}: must be the name of a folder, such as "run.zarr"')
    folder = Path(store)
    try:
        begun = (folder / "zarr.json").exists() or records_of(folder).folder.is_dir()
        foreign = folder.exists() and not begun and (not folder.is_dir() or _holds_something(folder))
    except OSError as error:  # a name that no folder can have
        raise InputError(f"store = {shown(store)}: {error.strerror or error}") from None
    if foreign:
        raise InputError(f"store = {str(store)!r} is there already and is not a store; name another folder")
    return folder


def _holds_something(folder: Path) -> bool:
    """More than the empty folder that a process leaves if it is killed at its very beginning."""
    return any(path.name != "status" or any(path.iterdir()) for path in folder.iterdir())


def records_of(store: Path) -> Records:
    """The bookkeeping of a store, in the folder of an array, where readers of Zarr do not look for arrays."""
    return Records(store / "status" / "records")


def lock_of(store: Path) -> Path:
    """The file that says who writes a store."""
    return records_of(store).folder / LOCK


@final
class Ledger:
    """What is done of some work, in a store that this process has locked; or, without one, nothing."""

    def __init__(self, store: Path | None) -> None:
        self.store = store
        self.records = None if store is None else records_of(store)

    def read(self, name: str) -> Record | None:
        """A part, if it is done; one that is damaged is to be done again, which is told."""
        try:
            return None if self.records is None else self.records.read(name)
        except DamageError:
            warn(f"{self.store}: the record {name!r} is damaged; what it held is computed again")
            return None

    def write(self, name: str, words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a part."""
        if self.records is not None:
            self.records.write(name, words, arrays)

    def remove(self, name: str) -> None:
        """Forget a part."""
        if self.records is not None:
            self.records.remove(name)


@contextmanager
def ledger_of(store: Any, what: str, specification: Mapping[str, Any]) -> Iterator[Ledger]:
    """The ledger of the work that is specified, named after `what` it is; an InputError if it is of another one."""
    if store is None:
        yield Ledger(None)
        return
    folder = folder_of(store)
    with locked(lock_of(folder)):
        try:
            known = records_of(folder).read(what)
        except DamageError:
            raise StoreError(f"{folder}: the record of what it holds is damaged; begin another store") from None
        if known is None:
            if records_of(folder).names():
                raise InputError(f"store = {str(folder)!r} holds something else than a {what}; name another folder")
            records_of(folder).write(what, specification, {})
        elif known.words != specification:
            pairs = [(name, x, specification.get(name)) for name, x in known.words.items()]
            told = "; ".join(f"{name} = {shown(new)} instead of {shown(x)}" for name, x, new in pairs if x != new)
            raise InputError(f"{folder} holds another {what}: {told}. Give what it has, or another store=")
        yield Ledger(folder)
