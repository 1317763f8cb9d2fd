"""Systems, methods and step sizes by name, as a command line gives them."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from holonax import systems
from holonax.errors import InputError, shown
from holonax.inputs.blame import first_line
from holonax.methods.base import Method
from holonax.numerics.newton import Newton
from holonax.systems.entry import Entry

_USERS = "holonax_user_"  # before the names of modules made from users' files: theirs may be called json.py


def find_system(name: str) -> Entry:
    """A catalogue entry, or `file.py:name`: an `hx.Entry`, or a function that returns one, from a file of yours."""
    path, _, attribute = name.rpartition(":")
    if path:
        return _from_file(path, attribute, Entry)
    if name not in systems.names():
        remedy = f"; a file of yours is named as {name}:NAME" if name.endswith(".py") else ""
        raise InputError(_unknown(f"system {name!r}", name, systems.names()) + remedy)
    return getattr(systems, name)()


def find_method(name: str) -> Method:
    """A method by class name, with its arguments after a colon, or `file.py:name` as for systems.

    `EulerA`, `Lobatto:4`, `Kicked:midpoint`, `Langevin:1,0.5,metropolis=True`.
    """
    kind, _, text = name.partition(":")
    path, _, attribute = name.rpartition(":")
    if path.endswith(".py"):
        return _from_file(path, attribute, Method)
    known = {method.__name__: method for method in _methods(Method)}
    if kind not in known:
        raise InputError(_unknown(f"method {kind!r}", kind, known))
    given = _arguments(known[kind], text)
    try:
        return known[kind](**given)
    except InputError:
        raise
    except (AttributeError, TypeError, ValueError) as error:  # of a value that is not of the right type
        raise InputError(f"{name}: {error}; a method may also be named as file.py:name") from error


def name_of(method: Method) -> str:
    """The name by which `find_method` finds a method."""
    values = [str(getattr(method, one)) for one in _takes(type(method))]
    return ":".join([type(method).__name__, ",".join(values)] if values else [type(method).__name__])


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


def _methods(base: Any) -> Iterator[Any]:
    """All methods; a class that is not final is only a base."""
    if "__final__" in vars(base):
        yield base
    for method in base.__subclasses__():
        yield from _methods(method)


def _takes(method: Any) -> dict[str, inspect.Parameter]:
    """What a method takes by name: everything but how its equations are solved."""
    parameters = inspect.signature(method).parameters
    return {name: one for name, one in parameters.items() if not isinstance(one.default, Newton)}


def _arguments(method: Any, text: str) -> dict[str, Any]:
    """The arguments of a method from `1,0.5,name=value`."""
    parameters = _takes(method)
    takes, given = [*parameters], {}
    for position, word in enumerate(text.split(",") if text else []):
        key, named, value = word.rpartition("=")
        if not named:
            key = takes[position] if position < len(takes) else ""
        if key not in takes or key in given:
            raise InputError(f"{method.__name__} takes no argument {word!r}; it takes {', '.join(takes) or 'none'}")
        given[key] = _value(value)
    needed = [name for name, one in parameters.items() if one.default is one.empty]
    if not given.keys() >= {*needed}:
        raise InputError(f"{method.__name__} needs {' and '.join(needed)}; write {method.__name__}:{','.join(needed)}")
    return given


def _value(text: str) -> Any:
    """A number, True, False or None if it reads as one, otherwise the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _from_file(path: str, attribute: str, kind: Any) -> Any:
    """The `kind` of thing that is called `attribute` in a file, or that it returns if it is a function."""
    module = _load(path)
    if attribute not in vars(module):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(_unknown(f"{attribute!r} in {path}", attribute, names))
    found = getattr(module, attribute)
    if callable(found) and not isinstance(found, kind):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise InputError(users_error(error) or f"{_summary(error)} ({path})") from error
    if not isinstance(found, kind):
        what = f"an hx.{kind.__name__} or a function that returns one"
        raise InputError(f"{attribute} in {path} is {shown(found)}; it must be {what}")
    return found


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
    try:
        specification.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"SyntaxError: {error.msg} (line {error.lineno} of {error.filename})") from error
    except (Exception, SystemExit) as error:
        raise InputError(users_error(error) or f"{_summary(error)} ({path})") from error
    return module


def _summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}".removesuffix(": ")


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    """That there is no such name, which ones look like it, and which ones there are."""
    lower = {one.lower(): one for one in known}
    close = [lower[one] for one in difflib.get_close_matches(name.lower(), lower)]
    meant = f" (did you mean {' or '.join(close)}?)" if close else ""
    return f"there is no {what}{meant}; choose one of {', '.join(known)}"
