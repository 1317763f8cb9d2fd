"""Systems and methods by name, as a command line gives them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from holonax import methods, systems
from holonax.entry import Entry
from holonax.errors import InputError
from holonax.methods.base import Method


def find_system(name: str) -> Entry:
    """A catalogue entry, or `file.py:name`: an `hx.Entry`, or a function that returns one, from a file of yours."""
    path, _, attribute = name.rpartition(":")
    if not path:
        if name not in systems.names():
            raise InputError(f"there is no system {name!r}; the catalogue has {', '.join(systems.names())}")
        return getattr(systems, name)()
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{path} is not a file; name a system as file.py:name or from the catalogue")
    specification = importlib.util.spec_from_file_location(file.stem, file)
    if specification is None or specification.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[file.stem] = module
    specification.loader.exec_module(module)
    found = getattr(module, attribute, None)
    if callable(found) and not isinstance(found, Entry):
        found = found()
    if not isinstance(found, Entry):
        raise InputError(f"{attribute} in {path} is {found!r}; it must be an hx.Entry or a function that returns one")
    return found


def find_method(name: str) -> Method:
    """A method by class name, with its argument after a colon: `EulerA`, `Lobatto:4`, `Kicked:midpoint`."""
    kind, _, argument = name.partition(":")
    known = {type(method).__name__: type(method) for method in Method.examples()}
    if kind not in known:
        raise InputError(f"there is no method {kind!r}; choose one of {', '.join(known)}")
    if not argument:
        return known[kind]()
    if kind == "Lobatto" and argument.isdigit():
        return methods.Lobatto(int(argument))
    if kind == "Kicked":
        return methods.Kicked(argument)
    raise InputError(f"{kind} takes no argument {argument!r}; Lobatto:STAGES and Kicked:SCHEME do")


def find_step_sizes(text: str) -> list[float]:
    """Step sizes: numbers or powers `2^-4`, separated by commas, or a range of powers `2^-4..2^-8`."""

    def number(word: str) -> float:
        base, power, exponent = word.partition("^")
        try:
            size = float(base) ** int(exponent) if power else float(word)
        except ValueError as error:
            raise InputError(f"{word!r} is not a step size; write 0.01 or 2^-6") from error
        if not size > 0:
            raise InputError(f"{word!r} is not a step size; it must be positive")
        return size

    first, span, last = text.partition("..")
    if not span:
        return [number(word) for word in text.split(",")]
    sizes, smallest = [number(first)], number(last)
    while sizes[-1] > smallest * (1 + 1e-9):
        sizes.append(sizes[-1] / 2)
    return sizes
