"""The body of a loop: one graph of operations for the entries that a round computes.

The graph is that of single numbers (`compiler.ir.graph`), so what several entries of a round have in common is computed
once.  Its inputs are entries of arrays in memory.  Formulas stand in it as they are: folded into each other, they would
be rounded in a way that depends on which of them share a loop, and the force at the beginning of a run would not be the
one that is kept from step to step.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from holonax.compiler.arrays.solve import Found
from holonax.compiler.arrays.statements import Store
from holonax.compiler.arrays.values import Array, Combined, Fixed, Formula, Given, Joined, Ref, Selected, Table
from holonax.compiler.ir.graph import Build, Node, combined, evaluated
from holonax.compiler.ir.target import Expansions


class Load(NamedTuple):
    """An entry of an array in memory: in round i, entry `table[i]`; or, by a number of the path's own, `by_path`."""

    array: Array
    table: Table
    by_path: Node | None = None


@final
class Body:
    """What a round computes."""

    def __init__(self, stored: set[Array], expansions: Expansions) -> None:
        self.build, self.stored, self.expansions = Build(), stored, expansions
        self.loads: dict[Node, Load] = {}
        self.own: dict[Array, Node] = {}  # computed in the same round
        self.known: dict[tuple, Node] = {}

    def store(self, store: Store) -> Node:
        """What is stored."""
        ref = store.ref
        node = self._computed(ref) if ref.array is store.array else self.value(ref)
        if store.places is None:
            self.own[store.array] = node
        return node

    def value(self, ref: Ref) -> Node:
        """An entry for every round."""
        array, table = ref.array, ref.table
        key = (array, table.tobytes())
        if key not in self.known:
            self.known[key] = self._value(ref)
        return self.known[key]

    def _value(self, ref: Ref) -> Node:
        array, table = ref.array, ref.table
        if isinstance(array, Fixed):
            values = array.values[table]
            if len(values) == 0 or (values == values[0]).all():
                return self.build.number(values[0] if len(values) else 0, array.dtype)
            return self._load(Load(Fixed(values), np.arange(len(values))))
        if array in self.own and np.array_equal(table, np.arange(array.size)):
            return self.own[array]
        if array in self.stored or isinstance(array, (Given, Found, Joined)):
            return self._load(Load(array, table))
        return self._computed(ref)

    def _computed(self, ref: Ref) -> Node:
        array, table = ref.array, ref.table
        match array:
            case Formula():
                arguments = [self.value(Ref(x.array, x.table[table])) for x in array.arguments]
                return array.kind.copied(self.build, arguments)
            case Combined():
                terms = [self.value(Ref(array.terms.array, column)) for column in array.terms.table[table].T]
                return combined(lambda x, y: self.build.shared(array.operation, array.dtype, (x, y)), terms)
            case Selected():
                index = self.value(Ref(array.index.array, array.index.table[table]))
                return self._load(Load(array.whole, np.arange(array.whole.size), index))
        raise TypeError(f"{type(array).__name__} has no formula")

    def _load(self, load: Load) -> Node:
        node = self.build.fresh("input", load.array.dtype)
        self.loads[node] = load
        return node

    def expanded(self, nodes: list[Node]) -> list[Node]:
        """The same with functions that the target lacks computed by others."""
        known: dict[Node, Node] = {}

        def value(node: Node) -> Node:
            arguments = [known[x] for x in node.args]
            if node.name in self.expansions:
                return self.expansions[node.name](self.build, *arguments)
            load = self.loads.get(node)
            if load is not None and load.by_path is not None and known[load.by_path] is not load.by_path:
                return self._load(load._replace(by_path=known[load.by_path]))
            return self.build.shared(node.name, node.dtype, tuple(arguments)) if arguments else node

        return evaluated(nodes, known, self._sources, value)

    def _sources(self, node: Node) -> tuple[Node, ...]:
        """What comes before: also the numbers by which entries are loaded."""
        load = self.loads.get(node)
        return node.args if load is None or load.by_path is None else (load.by_path,)

    def operations_for(self, nodes: list[Node]) -> list[Node]:
        """All operations and inputs that some nodes need, operands first."""
        order: dict[Node, Node] = {}
        evaluated(nodes, order, self._sources, lambda node: node)
        return [node for node in order if not node.is_constant]
