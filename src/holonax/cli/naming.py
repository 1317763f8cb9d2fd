"""Systems, methods and step sizes by name, as a command line gives them."""

from __future__ import annotations

import importlib.util
import math
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from holonax import systems
from holonax.errors import InputError, shown
from holonax.inputs.blame import first_line
from holonax.inputs.checks import unknown
from holonax.methods.base import Method
from holonax.methods.text import read, written
from holonax.systems.entry import Entry

_USERS = "holonax_user_"  # before the names of modules made from users' files: theirs may be called json.py


def find_system(name: str) -> Entry:
    """A catalogue entry, or `file.py:name`: an `hx.Entry`, or a function that returns one, from a file of yours.

    `pendulum`, `pendulum(noise=None)`, `chain:8`.
    """
    path, _, attribute = name.rpartition(":")
    if path and path not in systems.names():
        entry = _from_file(path, attribute, Entry)
        origin = f"{Path(path).resolve()}:{attribute}"
        return replace(entry, system=replace(entry.system, origin=origin))
    if name.endswith(".py"):
        raise InputError(f"there is no system {name!r}; a file of yours is named as {name}:NAME")
    return read(name, "system", {one: getattr(systems, one) for one in systems.names()})


def find_method(name: str) -> Method:
    """A method by a text for `Method.parse`, or `file.py:name` as for systems.

    `EulerA`, `Lobatto:4`, `Kicked:midpoint`, `Langevin:1,0.5,metropolis=True`, `VPRK(lobatto(3))`.
    """
    path, _, attribute = name.rpartition(":")
    return _from_file(path, attribute, Method) if path.endswith(".py") else Method.parse(name)


def find_function(name: str) -> Callable[..., Any]:
    """A function of a user's file, `file.py:name`."""
    path, _, attribute = name.rpartition(":")
    return _attribute(path, attribute)


def name_of(method: Method) -> str:
    """The shortest name by which `find_method` finds a method, with a colon: brackets need quotes in a shell."""
    kind, _, arguments = written(method).removesuffix(")").partition("(")
    return f"{kind}:{arguments}" if arguments else kind


def find_step_size(text: str) -> float:
    """One step size."""
    sizes = find_step_sizes(text)
    if len(sizes) > 1:
        raise InputError(f"h = {text!r} names {len(sizes)} step sizes; a run takes one (converge takes several)")
    return sizes[0]


def find_step_sizes(text: str) -> list[float]:
    """Step sizes: numbers or powers `2^-4`, separated by commas, or all halvings of a range `2^-4..2^-8`."""

    def number(word: str) -> float:
        base, power, exponent = word.partition("^")
        try:
            size = float(base) ** int(exponent) if power else float(word)
        except ValueError as error:
            raise InputError(f"{word!r} is not a step size; write 0.01 or 2^-6") from error
        except ArithmeticError:  # too large for a float, or a division by zero
            size = math.inf
        if not 0 < size < math.inf:
            raise InputError(f"{word!r} is not a step size; it must be positive and finite")
        return size

    first, span, last = text.partition("..")
    if not span:
        return [number(word) for word in text.split(",")]
    smallest, largest = sorted((number(first), number(last)))
    halvings = math.log2(largest / smallest)
    if abs(halvings - round(halvings)) > 1e-9:
        raise InputError(
            f"{text!r}: {largest:g} is {largest / smallest:g} times {smallest:g}, which is no power of 2; "
            "write the sizes one by one, separated by commas"
        )
    return [largest / 2**k for k in range(round(halvings) + 1)]


def users_error(error: BaseException) -> str | None:
    """An error that a user's file raised, in one line with the file and the line; None for one from elsewhere."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(_USERS):
            place = f"line {line} of {frame.f_code.co_filename}"
    return None if place is None else f"{_summary(error)} ({place})"


def _from_file(path: str, attribute: str, kind: Any) -> Any:
    """The `kind` of thing that is called `attribute` in a file, or that it returns if it is a function."""
    found = _attribute(path, attribute)
    if callable(found) and not isinstance(found, kind):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise InputError(users_error(error) or f"{_summary(error)} ({path})") from error
    if not isinstance(found, kind):
        what = f"an hx.{kind.__name__} or a function that returns one"
        raise InputError(f"{attribute} in {path} is {shown(found)}; it must be {what}")
    return found


def _attribute(path: str, attribute: str) -> Any:
    """What has that name in a file."""
    module = _load(path)
    if attribute not in vars(module):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(unknown(f"{attribute!r} in {path}", attribute, names))
    return getattr(module, attribute)


def _load(path: str) -> ModuleType:
    """The module of a user's file, under a name that is nobody else's."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{path} is not a file; name a system as file.py:name or from the catalogue")
    name = _USERS + file.stem
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look themselves up there
    sys.path.append(str(file.resolve().parent))  # as for a script, but last: its neighbours may be called json.py
    try:
        specification.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"SyntaxError: {error.msg} (line {error.lineno} of {error.filename})") from error
    except (Exception, SystemExit) as error:
        raise InputError(users_error(error) or f"{_summary(error)} ({path})") from error
    finally:
        sys.path.pop()
    return module


def _summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}".removesuffix(": ")
