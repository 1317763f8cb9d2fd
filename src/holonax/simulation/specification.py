"""What a stored run is, in words and numbers: enough to run it again, and to tell whether another one is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import jax
import numpy as np

from holonax import observables
from holonax.errors import InputError, StoreError
from holonax.inputs.made import recipe_of
from holonax.mechanics.closures import fingerprint_of
from holonax.mechanics.system import MethodOf, State, System
from holonax.methods.base import Method
from holonax.methods.text import written
from holonax.observables import Observable
from holonax.report.page import made_with
from holonax.simulation.plan import Plan
from holonax.simulation.run import in_words
from holonax.store.records import Record

FORMAT = 1
"""Of the store: what is written otherwise has another number."""

SAME = {
    "method": "method", "h": "h", "t0": "t0", "seed": "seed", "first_step": "first_step", "save_every": "save_every",
    "dtype": "dtype",
}  # fmt: skip
"""What must not change when a run goes on, with the names of the arguments."""


def specification(plan: Plan, ran_on: str) -> dict[str, Any]:
    """Of a plan that runs on this engine, for the attributes of a store; `t1` and `paths` may grow later."""
    return {
        "holonax": FORMAT,
        "system": in_words(plan.form, plan.n),
        "origin": plan.system.origin,
        "fingerprint": fingerprint_of(plan.system, plan.n),
        "method": written(plan.method),
        "t0": plan.t0,
        "t1": plan.t1,
        "h": plan.h,
        "steps": plan.steps,
        "first_step": plan.first_step,
        "paths": plan.paths,
        "seed": plan.seed,
        "save_every": plan.save_every,
        "dtype": plan.dtype,
        "engine": plan.engine,
        "ran_on": ran_on,
        "observe": {name: _of_observable(plan, observable) for name, observable in plan.observe.items()},
        "versions": made_with(),
    }


def name_of_begins(paths: int | str) -> str:
    """The record of `begins`: one for each number of paths, so that one always fits what the store says it is."""
    return f"begin-{paths}"


def begins(plan: Plan) -> dict[str, np.ndarray]:
    """The numbers that a run begins with: states and parameters."""
    start = {"q": plan.start.q, "p": plan.start.p, "v": plan.start.guess}
    numbers = {name: x for name, x in plan.values.shared.items() if recipe_of(x) is None} | plan.values.own
    given = {f"start.{name}": np.asarray(x) for name, x in start.items()}
    return given | {f"parameter.{name}": np.asarray(x) for name, x in numbers.items()}


def began(record: Record) -> tuple[State, dict[str, np.ndarray]]:
    """The same numbers again: start and parameters."""
    start = State(*(record.arrays[f"start.{name}"] for name in "qpv"))
    own = {name: x for name, x in record.arrays.items() if name.startswith("parameter.")}
    return start, {name.removeprefix("parameter."): x for name, x in own.items()}


def check_same(store: Any, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise if a run is not the one that is stored, and say in what they differ."""
    if there.get("holonax") != FORMAT:
        raise StoreError(f"{store} has the format {there.get('holonax')}; this version of holonax knows {FORMAT}")
    differing = [
        f"{argument} = {wanted[name]!r} instead of {there[name]!r}"
        for name, argument in SAME.items()
        if wanted[name] != there[name]
    ]
    if wanted["fingerprint"] != there["fingerprint"]:
        traced = f" (it was traced by JAX {there['versions']['jax']}, here is {wanted['versions']['jax']})"
        other = there["versions"]["jax"] != wanted["versions"]["jax"]
        differing.append(f"another system than {there['system']}{traced if other else ''}")
    differing += _differing_observables(there["observe"], wanted["observe"])
    if differing:
        raise InputError(f"{store} holds another run: {'; '.join(differing)}. Give what it has, or another store=")
    if wanted["ran_on"] != there["ran_on"]:
        raise InputError(
            f"{store} was computed by the engine {there['ran_on']!r} and would go on with {wanted['ran_on']!r}, whose "
            "last digits differ; go on where that engine is, or give another store="
        )
    for name, sign in (("t1", "later"), ("paths", "more")):
        if wanted[name] < there[name]:
            raise InputError(
                f"{store} has {name} = {there[name]} already, beyond {name} = {wanted[name]}; a run can be extended "
                f"to {sign}, not cut: open it with hx.open and take what you need"
            )


def check_extension(plan: Plan, there: Mapping[str, Any]) -> None:
    """Raise if an observable would have gathered otherwise, had it known that there are more times or paths to come."""
    if (there["steps"], there["paths"]) == (plan.steps, plan.paths):
        return
    for name, observable in plan.observe.items():
        if observable.over == "paths":
            continue
        then = there["steps"], plan.save_every, there["paths"], plan.t0, there["t1"]
        before = observable.view(*then, plan.n, plan.dtype, plan.form.parameters)
        old, new = (jax.tree.leaves(observable.begin(view, 1)) for view in (before, plan.views[name]))
        if not all(np.array_equal(x, y) for x, y in zip(old, new, strict=True)):
            raise InputError(
                f"observe[{name!r}] is a {type(observable).__name__} over {observable.over!r}, whose batches depend on "
                "how many times and paths there are in all; such a run cannot be extended: give another store="
            )


def _differing_observables(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    if list(there) != list(wanted):
        return [f"observe = {list(wanted)} instead of {list(there)}"]
    found = []
    for name, old in there.items():
        new = wanted[name]
        keys = [key for key in old if key not in ("fingerprint", "method") and old[key] != new.get(key)]
        found += [f"{key} = {new.get(key)} instead of {old[key]} in observe[{name!r}]" for key in keys]
        if old["fingerprint"] != new["fingerprint"] and not keys:
            found.append(f"another function in observe[{name!r}]")
    return found


# Observables.


def check_array_names(observe: Mapping[str, Observable]) -> None:
    """Raise for names that cannot be those of arrays in a store."""
    for name in observe:
        if not isinstance(name, str) or not name or name.startswith(".") or set(name) & _FORBIDDEN:
            raise InputError(
                f"observe[{name!r}]: with store= the name of an observable is that of arrays on the disk: a text "
                'without / \\ and :, that does not begin with "."'
            )


_FORBIDDEN = set("/\\:\0")


def _of_observable(plan: Plan, observable: Observable) -> dict[str, Any]:
    """The class and the plain fields; a function as the method of the system that it is, and by its fingerprint."""
    plain = {one.name: getattr(observable, one.name) for one in fields(observable) if one.name not in ("fn", "system")}
    words = {
        name: np.asarray(x).tolist() if np.ndim(x) or isinstance(x, np.generic) else x for name, x in plain.items()
    }
    mark = observable.fingerprint(plan.n, plan.form.parameters)
    return {
        "kind": type(observable).__name__,
        **words,
        "method": _method_name(observable.fn, plan),
        "fingerprint": mark,
    }


def _method_name(fn: Any, plan: Plan) -> str | None:
    owner = getattr(fn, "__self__", None)
    if isinstance(fn, MethodOf):
        return fn.name
    return str(fn.__name__) if isinstance(owner, System) and owner == plan.system else None


def observables_again(store: Any, described: Mapping[str, Any], system: System) -> dict[str, Observable]:
    """The observables of a store, if their functions are methods of the system."""
    found = {}
    for name, words in described.items():
        kind = getattr(observables, words["kind"], None)
        if words["method"] is None or kind is None:
            raise InputError(
                f"the function of observe[{name!r}] in {store} is not a method of the system and cannot be found "
                f"again; pass the observables again: hx.resume(..., observe={{{name!r}: hx.{words['kind']}(...), ...}})"
            )
        plain = {key: x for key, x in words.items() if key not in ("kind", "method", "fingerprint")}
        found[name] = kind(getattr(system, words["method"]), **plain)
    return found


def method_again(store: Any, text: str) -> Method:
    """The method of a store."""
    try:
        return Method.parse(text)
    except InputError:
        raise InputError(
            f"the method {text} in {store} is not one that comes with holonax; go on with hx.simulate(..., store=)"
        ) from None
