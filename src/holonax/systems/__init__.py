"""The catalogue: every module here but `entry` defines one function of its own name that returns an `Entry`.

>>> import holonax as hx
>>> "rigid_body" in hx.systems.names()
True
>>> entry = hx.systems.rigid_body()
>>> entry.n, entry.k, entry.m
(9, 6, 3)
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from holonax.inputs.checks import unknown
from holonax.systems.entry import Entry, traceable


def names() -> list[str]:
    """The names in the catalogue."""
    return sorted(module.name for module in iter_modules(__path__) if module.name != "entry")


# A file dropped into this folder is an entry: hx.systems.NAME is the function NAME of the module NAME.
globals().update({name: traceable(getattr(import_module(f"{__name__}.{name}"), name)) for name in names()})


def __getattr__(name: str) -> Callable[..., Entry]:
    raise AttributeError(unknown(f"system {name!r}", name, names()))
