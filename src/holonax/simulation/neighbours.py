"""Parameters that are made for states, such as neighbour lists, on the way of a chunk of paths.

What was made for a state is good for a while.  Calls of the engine are kept so short that it stays good, and between
them it is made anew.  If a step fails all the same, the steps before it are taken again, which gives the same numbers,
and the step is repeated with what is made for the state before it.  So no result depends on what was out of date, and a
step that fails twice has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from holonax.engines import Runner
from holonax.inputs.made import Made, Recipe
from holonax.methods.path import Fate

_ANEW = 0.5
"""What has gone this part of the way that it may go is made anew between two calls."""
_HOPED = 0.8
"""The part of the way that remains which a call is meant to use: motion is not uniform."""
_LONGER = 4
"""How much longer than what went well a call may be."""


@final
class Followed:
    """What was made for the paths of a chunk; `room` is shared by all chunks, so that few programs are compiled."""

    def __init__(self, recipes: Mapping[str, Recipe], q: np.ndarray, room: dict[str, int], step: int = 0) -> None:
        self.recipes, self.room = recipes, room
        self.made: dict[str, Made] = {}
        self.since = step  # the step before which all of it was made
        self.reach = 1 if recipes else 2**31  # how many steps the next call may take
        self._make(q, step)

    def failing(self, runner: Runner, carried: Any, first_step: int) -> int | None:
        """The earliest step of a call that failed with what was not made for the state before it."""
        if not self.recipes:
            return None
        fate: Fate = runner.fate(carried)
        failed = fate.failed_step[fate.status != 0] - first_step
        late = failed[failed > self.since]
        return int(late.min()) if late.size else None

    def renew(self, runner: Runner, carried: Any, step: int) -> Any:
        """The same paths, before this step, with what is made for where they are."""
        self._make(runner.places(carried)[0], step)
        return runner.renewed(carried, self.made)

    def follow(self, runner: Runner, carried: Any, step: int) -> Any:
        """The same paths, before this step, with what is good enough for the next ones."""
        if not self.recipes:
            return carried
        q = runner.places(carried)[0]
        gone = max(float(np.max(x.distance(q))) for x in self.made.values())
        steps = step - self.since
        if gone > _ANEW:
            carried = self.renew(runner, carried, step)
        left = 1.0 if gone > _ANEW else 1.0 - gone
        self.reach = max(1, int(min(_LONGER * steps, _HOPED * left * steps / max(gone, 1e-9))))
        return carried

    def _make(self, q: np.ndarray, step: int) -> None:
        self.made = {name: recipe.around(q, self.room.get(name, 0)) for name, recipe in self.recipes.items()}
        self.room.update({name: x.room for name, x in self.made.items()})
        self.since = step
