"""`holonax list`: what there is."""

from __future__ import annotations

from typing import Any

from holonax import systems
from holonax.cli import naming
from holonax.cli.options import AsJson
from holonax.cli.terminal import say_wrapped, show_json, show_table
from holonax.methods.base import Method
from holonax.methods.tableaux import TABLEAUX
from holonax.methods.text import required_arguments


def list_all(as_json: AsJson = False) -> int:
    """Methods with orders, structure and cost; systems with their sizes.

    Example: holonax list
    """
    methods = [_of_method(method) for kind in Method.listed for method in kind.typical()]
    usages = [
        f"{kind.__name__}:{','.join(required_arguments(kind))}" for kind in Method.listed if required_arguments(kind)
    ]
    tableaux = [
        f"{name}({', '.join(required_arguments(one))})" if callable(one) else name for name, one in TABLEAUX.items()
    ]
    known = [_of_system(name) for name in systems.names()]
    if as_json:
        show_json({"methods": methods, "methods_with_arguments": usages, "tableaux": tableaux, "systems": known})
        return 0
    columns = ("method", "order", "strong", "weak", "structure", "unknowns")
    show_table("Methods", columns, [_method_row(one) for one in methods])
    say_wrapped(f"Methods with arguments: {', '.join(usages)}", indent="  ")
    say_wrapped(f"Tableaux: {', '.join(tableaux)}", indent="  ")
    rows = [
        (one["system"], *(str(one[size]) for size in "nkm"), ", ".join(one["conserved"]), ", ".join(one["known"]))
        for one in known
    ]
    show_table("Systems", ("system", "n", "k", "m", "conserved", "known in closed form"), rows)
    return 0


def _of_method(method: Method) -> dict[str, Any]:
    return {
        "method": naming.name_of(method),
        "order": method.order,
        "strong_order": method.strong_order,
        "weak_order": method.weak_order,
        "symplectic": method.symplectic,
        "symmetric": method.symmetric,
        "keeps_manifold": method.keeps_manifold,
        "unknowns": method.cost.replace(" ", ""),
    }


def _method_row(one: dict[str, Any]) -> tuple[str, ...]:
    orders = (str(one["order"]), f"{one['strong_order']:g}", str(one["weak_order"]))
    structure = [word for word in ("symplectic", "symmetric") if one[word]]
    if not one["keeps_manifold"]:
        structure.append("leaves T*S")
    return (one["method"], *orders, ", ".join(structure), one["unknowns"])


def _of_system(name: str) -> dict[str, Any]:
    entry = naming.find_system(name)
    sizes = {"n": entry.n, "k": entry.k, "m": entry.m}
    return {"system": name, **sizes, "conserved": list(entry.symmetries), "known": list(entry.facts)}
