"""Methods as text, such as `Langevin(1, 0.5, metropolis=True)`: in the syntax of Python, of which nothing is run."""

from __future__ import annotations

import ast
import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from holonax.errors import InputError, shown
from holonax.inputs.checks import unknown
from holonax.methods.tableau import Tableau
from holonax.methods.tableaux import TABLEAUX
from holonax.numerics.newton import Newton

PARTS: Mapping[str, Any] = {"Newton": Newton, "Tableau": Tableau, **TABLEAUX}
"""What the arguments of a method may be made of, besides numbers, words and other methods."""

_WORD = re.compile(r"[^\W\d][\w-]*")  # read as text also without quotes


def read(text: str, kind: str, known: Mapping[str, Callable[..., Any]]) -> Any:
    """What a text such as `Name`, `Name(value, name=value)` or `Name:value,name=value` stands for.

    The names are those of `known`, a method or whatever `kind` says; their arguments may hold them and PARTS.
    """
    text = re.sub(r"\A([\w.]+):(.*)\Z", r"\1(\2)", text.strip(), flags=re.DOTALL)  # brackets need quotes in a shell
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:  # the latter three: no UTF-8, or too deep
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        usage = f"write NAME or NAME(value, name=value), where NAME is one of {', '.join(known)}"
        raise InputError(f"there is no {kind} {shown(text)}: {reason}; {usage}") from None
    reader = _Reader(text, {**PARTS, **known})
    name = reader.name(tree)
    if name not in known:
        raise InputError(unknown(f"{kind} {shown(name)}", name, known))
    return reader.value(tree)


def written(value: Any) -> str:
    """A text without spaces, if possible, of which `read` makes an equal method, or an argument of one."""
    for name, part in PARTS.items():
        if type(part) is type(value) and part == value:
            return name
    if is_dataclass(value):
        return _written_call(value)
    if isinstance(value, str) and _WORD.fullmatch(value) and not {*value.split("-")} & {*keyword.kwlist, *PARTS}:
        return value
    return repr(value)


def required_arguments(made: Callable[..., Any]) -> list[str]:
    """The arguments without which it cannot be called."""
    return [name for name, one in inspect.signature(made).parameters.items() if one.default is one.empty]


def _in_order(made: Callable[..., Any]) -> list[str]:
    """The arguments that need no name: all but how equations are solved."""
    parameters = inspect.signature(made).parameters
    return [name for name, one in parameters.items() if not isinstance(one.default, Newton)]


def _written_call(value: Any) -> str:
    """A dataclass by those fields that differ from their defaults, without names as long as none is left out."""
    unnamed, arguments, by_name = _in_order(type(value)), [], False
    for field in fields(value):
        given = getattr(value, field.name)
        given = given.tolist() if hasattr(given, "tolist") else given  # an array, or a number of NumPy's
        changed = field.init and given != field.default
        by_name = by_name or not changed or field.name not in unnamed
        if changed:
            arguments.append(f"{field.name}={written(given)}" if by_name else written(given))
    return f"{type(value).__name__}({','.join(arguments)})" if arguments else type(value).__name__


@dataclass(frozen=True)
class _Reader:
    """Makes values of the nodes of the syntax tree of `text`."""

    text: str
    names: Mapping[str, Any]

    def source(self, node: ast.AST) -> str:
        """The node as it was written."""
        return ast.get_source_segment(self.text, node) or ""

    def name(self, node: ast.AST) -> str:
        """What is named or called there, with or without its module: errors advise `hx.tableaux.RATTLE`."""
        function = node.func if isinstance(node, ast.Call) else node
        return self.source(function).removeprefix("hx.").removeprefix("tableaux.")

    def value(self, node: ast.expr) -> Any:
        """A call, something known by name (a class stands for its default instance), a literal or a word."""
        name, is_call = self.name(node), isinstance(node, ast.Call)
        if name in self.names:
            found = self.names[name]
            return self.made(name, node) if is_call or callable(found) else found
        if is_call:
            raise InputError(unknown(shown(name), name, self.names))
        try:
            return ast.literal_eval(node)
        except (TypeError, ValueError):  # the former: a list as the key of a dictionary
            if _WORD.fullmatch(name):
                return name
        choice = ", ".join(self.names)
        raise InputError(f"{shown(name)} is not a value; write a number, a word, text in quotes, or one of {choice}")

    def made(self, name: str, node: ast.expr) -> Any:
        """The instance of a class or the result of a function."""
        made = self.names[name]
        if not callable(made):
            raise InputError(f"{name} takes no arguments; write {name} without brackets")
        given, needed = self.arguments(name, node), required_arguments(made)
        if not given.keys() >= {*needed}:
            is_whole = node.col_offset == 0  # and thus may have the form without brackets
            usage = f"{name}:{','.join(needed)}" if is_whole else f"{name}({', '.join(needed)})"
            raise InputError(f"{name} needs {' and '.join(needed)}; write {usage}")
        try:
            return made(**given)
        except InputError:
            raise
        except (ArithmeticError, AttributeError, TypeError, ValueError) as error:  # of a value of the wrong kind
            raise InputError(f"{shown(self.source(node))}: {error}; pass other values") from error

    def arguments(self, name: str, node: ast.expr) -> dict[str, Any]:
        """What is given to a class or function, by name."""
        takes, unnamed = inspect.signature(self.names[name]).parameters, _in_order(self.names[name])
        arguments, keywords = (node.args, node.keywords) if isinstance(node, ast.Call) else ([], [])
        keys = [*unnamed, *[None] * len(arguments)]  # None: there is no place for it
        words = [(keys[position], word, word) for position, word in enumerate(arguments)]
        given: dict[str, Any] = {}
        for key, value, word in [*words, *((word.arg, word.value, word) for word in keywords)]:
            source = shown(self.source(word))
            if key is None or key not in takes:
                named = [one for one in takes if one not in unnamed]
                choice = (", ".join(unnamed) or "none") + (f", and by name {', '.join(named)}" if named else "")
                raise InputError(f"{name} takes no argument {source}; it takes {choice}")
            if key in given:
                raise InputError(f"{name} is given {key} twice; leave out {source}")
            given[key] = self.value(value)
        return given
