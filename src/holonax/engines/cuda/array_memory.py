"""Where the arrays of a program are while a block of threads takes a path through its steps.

Single numbers are in registers: every thread that needs one has its own copy.  Arrays that are accessed most, for their
size, are in shared memory, as far as that goes; the others are in *scratch*, a piece of global memory that a block uses
again for each of its paths, so that it stays in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, final

from holonax.compiler.arrays.program import ArrayProgram, Lives, first_fit, lives, parts_of_workspaces, room
from holonax.compiler.arrays.solve import home
from holonax.compiler.arrays.values import Array, Scattered

SHARED, SCRATCH, REGISTER = "shared", "scratch", "register"
NOW, NEXT = "now", "next"


class Spot(NamedTuple):
    """The place of an array: a memory, and its first slot there (or the number of a register).

    What a step hands on to the next has two places, which take turns: `NOW` is read, `NEXT` is written.
    """

    memory: str
    slot: int
    turn: str = ""


@final
class Memory:
    """Places of all arrays of a program, given how often each is accessed and how much shared memory there is.

    Attributes:
        registers: of arrays of one entry, by array; those that a step carries on have a second one.
        turn_size: slots in each memory of one turn of what a step carries on.
        used: slots in each memory.
        dead: arrays that nobody reads, but in the round of a loop that computes them.
        uniform: arrays in registers that every thread needs; of the others one thread alone has a copy.
    """

    def __init__(
        self,
        program: ArrayProgram,
        counts: Mapping[Array, float],
        budget: int,
        loaded: set[Array] | None = None,
        uniform: frozenset[Array] = frozenset(),
    ) -> None:
        """`budget` is in slots of shared memory; of other arrays than those that are `loaded` nothing is stored."""
        self.program, self.uniform = program, uniform
        self.inside = parts_of_workspaces(program.step.statements)
        self.carried: list[Array] = [*program.track, *program.kept]
        self.results: dict[Array, Array] = dict(zip(program.results, program.track, strict=True))
        self.results |= {end: array for array, end in program.kept.items()}
        self.known = self._lives()
        self.dead: set[Array] = set() if loaded is None else {*self.known} - {self._home(x) for x in loaded}
        self.known = {x: life for x, life in self.known.items() if x not in self.dead}
        self.registers = self._registers()
        own = [x for x in (*self.carried, *self.known) if x not in self.registers]
        ranked = sorted(own, key=lambda x: -counts.get(x, 0.0) / room(x))
        most, none = len(ranked) + 1, 0
        while most - none > 1:  # as many of the first ones as there is room for
            middle = (most + none) // 2
            fits = self._arrange({*ranked[:middle]})[SHARED] <= budget
            most, none = (most, middle) if fits else (middle, none)
        self.used = self._arrange({*ranked[:none]})

    def _lives(self) -> Lives:
        """Of the frame of a step; the few arrays of what comes before it live throughout."""
        step, begin = self.program.step, self.program.begin
        outside = {*self.results, *self.carried}
        found = {x: life for x, life in lives(step.statements, step.stored).items() if x not in outside}
        always = (0, max((last for _, last in found.values()), default=0))
        return found | dict.fromkeys((x for x in lives(begin.statements, begin.stored) if x not in outside), always)

    def _registers(self) -> dict[Array, int]:
        """Of arrays of one entry, unless entries are looked up by numbers that are known later."""
        looked_up: set[Array] = set()
        for solve in self.program.solves:
            looked_up |= {*solve.own} - {solve.moves}
        single = [x for x in (*self.carried, *self.known) if x.size == 1 and not isinstance(x, Scattered)]
        return {x: i for i, x in enumerate(x for x in single if x not in looked_up)}

    def _arrange(self, shared: set[Array]) -> dict[str, int]:
        """Give places, with these arrays in shared memory; the slots that each memory then has."""
        self.places: dict[Array, Spot] = {}
        self.turn_size, used = {}, {}
        for memory in (SHARED, SCRATCH):
            end = 0
            for array in self.carried:
                if array not in self.registers and (array in shared) == (memory == SHARED):
                    self.places[array] = Spot(memory, end, NOW)
                    end += room(array)
            self.turn_size[memory] = end
            own = {
                x: life
                for x, life in self.known.items()
                if x not in self.registers and (x in shared) == (memory == SHARED)
            }
            fitted, size = first_fit(own)
            self.places |= {x: Spot(memory, 2 * end + slot) for x, slot in fitted.items()}
            used[memory] = 2 * end + size
        for array, (whole, begin) in self.inside.items():
            if whole in self.places:  # unless there is nothing to eliminate
                self.places[array] = self.places[whole]._replace(slot=self.places[whole].slot + begin)
        return used

    def _home(self, array: Array) -> Array:
        """The array in whose place another one is found."""
        return self.inside[array][0] if array in self.inside else home(array)

    def __getitem__(self, array: Array) -> Spot:
        """Where an array is."""
        turn = NEXT if array in self.results else ""
        array = home(self.results.get(array, array))
        if array in self.registers:
            return Spot(REGISTER, self.registers[array], turn or (NOW if array in self.carried else ""))
        place = self.places[array]
        return place._replace(turn=turn) if turn else place
