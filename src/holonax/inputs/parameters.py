"""Parameters: numbers that functions ask for by name, so that a new value needs no new program.

A function asks with keyword-only arguments, `def lagrangian(q, v, *, gravity)`.  What is compiled depends on the names
and shapes of parameters alone; their values are arguments of it, the same for all paths or one for each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from holonax.errors import InputError, shown
from holonax.inputs.blame import definition
from holonax.inputs.checks import is_traced, real_numbers, unknown
from holonax.inputs.made import Made, Recipe, recipe_of

_A_NUMBER = "pass a real number, or an array of them"


def asked_for(function: Callable[..., Any], known: Collection[str]) -> list[str]:
    """Which of the known parameters a function asks for."""
    arguments = _arguments(function)
    if any(x.kind is x.VAR_KEYWORD for x in arguments):
        return sorted(known)
    return [x.name for x in arguments if x.kind is x.KEYWORD_ONLY and x.name in known]


def required(function: Callable[..., Any]) -> list[str]:
    """Parameters without which a function cannot be called."""
    return [x.name for x in _arguments(function) if x.kind is x.KEYWORD_ONLY and x.default is x.empty]


def check_names(name: str, function: Callable[..., Any], known: Collection[str]) -> None:
    """Raise if the function that came as `name` asks for a parameter that does not exist."""
    for missing in required(function):
        if missing not in known:
            raise InputError(f"{name} asks for {missing!r}{definition(function)}, and {_unknown(missing, known)}")


def check_known(name: str, known: Collection[str]) -> None:
    """Raise if there is no such parameter."""
    if name not in known:
        raise InputError(_unknown(name, known))


def given(function: Callable[..., Any], values: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with the values of the parameters that it asks for."""
    names = asked_for(function, values) if values else []
    return partial(function, **{name: as_argument(values[name]) for name in names}) if names else function


def as_argument(value: Any) -> Any:
    """A parameter as functions get it."""
    return jnp.asarray(value) if recipe_of(value) is None else value


def kinds(values: Mapping[str, Any], n: int, dtype: Any = None) -> dict[str, Any]:
    """What functions of n coordinates are traced with: shapes, in the type of a run, or else the widest."""
    kind = jnp.result_type(float) if dtype is None else dtype

    def of_one(value: Any) -> Any:
        recipe = recipe_of(value)
        return jax.ShapeDtypeStruct(jnp.shape(value), kind) if recipe is None else recipe.kind(n, kind)

    return {name: of_one(x) for name, x in values.items()}


def forms(values: Mapping[str, Any]) -> dict[str, Any]:
    """What programs are remembered by: names, with shapes or recipes."""
    kind = jnp.result_type(float)
    return {name: recipe_of(x) or jax.ShapeDtypeStruct(jnp.shape(x), kind) for name, x in values.items()}


def recipes_in(values: Mapping[str, Any]) -> dict[str, Recipe]:
    """Of those parameters that are made for states."""
    found = {name: recipe_of(x) for name, x in values.items()}
    return {name: recipe for name, recipe in found.items() if recipe is not None}


def shape_of(value: Any) -> Any:
    """What another value must share with this one: its shape, or its kind of recipe."""
    recipe = recipe_of(value)
    return jnp.shape(value) if recipe is None else type(recipe).__name__


def as_value(name: str, value: Any) -> Any:
    """A parameter as it is kept: a constant array, or what JAX knows of it where it is traced."""
    if isinstance(value, (jax.ShapeDtypeStruct, Recipe, Made)):
        return value
    if is_traced(value):
        array = jnp.asarray(value)
        if jnp.issubdtype(array.dtype, jnp.complexfloating):
            raise InputError(f"parameters[{name!r}] is of type {array.dtype}; {_A_NUMBER}")
        return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
    constant = np.array(real_numbers(f"parameters[{name!r}]", value, _A_NUMBER))
    if np.isnan(constant).any():
        raise InputError(f"parameters[{name!r}] = {shown(value)} is not a number; {_A_NUMBER}")
    constant.flags.writeable = False
    return constant


def as_values(parameters: Any) -> dict[str, Any]:
    """Parameters by name."""
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        raise InputError(f"parameters = {shown(parameters)}: name them, as in parameters={{'gravity': 9.81}}")
    return {name: as_value(name, parameters[name]) for name in sorted(parameters)}


@final
class Values(NamedTuple):
    """Parameters of an ensemble: those that all paths share, and, with a leading axis, those that each path has."""

    shared: dict[str, Any]
    own: dict[str, Any]

    @staticmethod
    def of(known: Mapping[str, Any], asked: Any) -> Values:
        """The known ones, except for those asked for: in their shape, or with one more axis in front for the paths."""
        asked = {} if asked is None else as_values(asked)
        shared, own = dict(known), {}
        for name, value in asked.items():
            check_known(name, known)
            if recipe_of(known[name]) is not None or recipe_of(value) is not None:
                raise InputError(
                    f"parameters[{name!r}] is made by holonax for every path; another one is for "
                    f"system.replace({name}=...)"
                )
            shape, found = np.shape(known[name]), np.shape(value)
            if found == shape:
                shared[name] = value
            elif found[1:] == shape and len(found) == len(shape) + 1 and found[0]:
                own[name] = value
                del shared[name]
            else:
                raise InputError(
                    f"parameters[{name!r}] has shape {found}; it must be {shape}, or {('paths', *shape)} for one per "
                    "path".replace("'paths'", "paths")
                )
        values = Values(shared, own)
        if len({len(x) for x in own.values()}) > 1:
            lengths = ", ".join(f"{name!r} {len(x)}" for name, x in own.items())
            raise InputError(f"parameters are given for different numbers of paths: {lengths}; make them agree")
        return values

    @property
    def paths(self) -> int | None:
        """How many paths have their own; None if all share all."""
        return next((len(x) for x in self.own.values()), None)

    def of_paths(self, index: slice | np.ndarray, count: int, dtype: Any = float) -> dict[str, np.ndarray]:
        """Those of so many paths, with a leading axis, but for those that are made; what they share is not copied."""
        numbers = {name: x for name, x in self.shared.items() if recipe_of(x) is None}
        shared = {name: np.broadcast_to(x.astype(dtype), (count, *x.shape)) for name, x in numbers.items()}
        return shared | {name: x[index].astype(dtype) for name, x in self.own.items()}

    @property
    def recipes(self) -> dict[str, Recipe]:
        """Of those that are made for states."""
        return recipes_in(self.shared)

    def made_for(self, q: Any) -> dict[str, Made]:
        """Those that are made for states, for q; with a leading axis if there are several."""
        return {name: recipe.around(q) for name, recipe in self.recipes.items()}

    def around(self, q: Any) -> Values:
        """The same, with those that are made for states made for q; one for each state if there are several."""
        made = self.made_for(q)
        if jnp.ndim(q) == 1:
            return Values(self.shared | made, self.own)
        return Values({name: x for name, x in self.shared.items() if name not in made}, self.own | made)


def _arguments(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # many builtin functions have no signature
        return []


def _unknown(name: str, known: Collection[str]) -> str:
    what = unknown(f"parameter {shown(name)}", name, known)
    return f"{what}{', or' if known else ';'} say its value: hx.System(..., parameters={{{name!r}: 1.0}})"
