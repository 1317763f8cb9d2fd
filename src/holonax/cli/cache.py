"""`holonax cache`: the compiled programs that are kept for the next process."""

from __future__ import annotations

from typing import Annotated

import typer

from holonax.cache.files import MOST_BYTES, VARIABLE, KeptFile, user_cache
from holonax.cli.options import AsJson
from holonax.cli.terminal import say, show_json
from holonax.errors import InputError


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False, as_json: AsJson = False
) -> int:
    """Show where compiled programs are kept, how many, and their size; or remove them.

    Example: holonax cache --clear
    """
    kept = user_cache()
    if kept is None:
        told = f"nothing is kept: {VARIABLE} is empty, or there is no home folder"
        show_json({"folder": None}) if as_json else say(told)
        return 0
    removed = kept.clear() if clear else []
    left, reason = kept.entries(), kept.refusal()
    if as_json:
        sizes = {"programs": len(left), "bytes": sum(file.size for file in left), "removed": len(removed)}
        show_json({"folder": str(kept.folder), **sizes, "most_bytes": MOST_BYTES, "not_used": reason})
    elif clear:
        say(f"{kept.folder}: {_amount(removed)} removed")
    else:
        say(f"{kept.folder}: {_amount(left)} of at most {MOST_BYTES / 2**20:.0f} MiB")
        if reason is not None:
            say(f"it is not used: {reason}")
    if clear and left:
        raise InputError(f"{_amount(left)} in {kept.folder} cannot be removed; see to the rights of the folder")
    return 0


def _amount(files: list[KeptFile]) -> str:
    size = sum(file.size for file in files) / 2**20
    return f"{len(files) or 'no'} {'program' if len(files) == 1 else 'programs'}, {size:.1f} MiB"
