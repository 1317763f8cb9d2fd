"""What else decides what a program is compiled to: the code of holonax itself, and the libraries."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

import jax
import jaxlib
import numpy as np

_PACKAGE = Path(__file__).parent.parent


@cache
def versions() -> tuple[str, ...]:
    """Of holonax by what is written in its modules, so that whoever changes one gets another program."""
    libraries = (f"jax {jax.__version__}", f"jaxlib {jaxlib.__version__}", f"numpy {np.__version__}")
    return (f"holonax {_source()}", *libraries, f"asdex {_installed('asdex')}", f"python {platform.python_version()}")


def _source() -> str:
    digest = blake2b(digest_size=20)
    for path in sorted(_PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _installed(name: str) -> str:
    """The version of a library that is not imported for this."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
