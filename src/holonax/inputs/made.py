"""Parameters that are made for a state, such as lists of neighbours: what they are made by, and what is made.

Other parameters are numbers that the user knows.  These follow from where a path is: holonax makes them for each path,
and makes them anew when the path has gone too far.  What is compiled knows the `Recipe` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array


class Recipe(ABC):
    """Says how a parameter is made; hashable, for programs are remembered by it."""

    @property
    @abstractmethod
    def functions(self) -> list[Callable[..., Any]]:
        """Those of the user's that are called: what they refer to may change."""

    @abstractmethod
    def kind(self, n: int, dtype: Any) -> Made:
        """What is made, by shapes and types only, for n coordinates; an InputError if it cannot be made for them."""

    @abstractmethod
    def around(self, q: Any, room: int = 0) -> Made:
        """Made for the state(s) `q`, with a leading axis where q has one; with room for at least so many entries."""


class Made(ABC):
    """What a recipe has made, as a tree of arrays; it is good for states near the one that it was made for."""

    recipe: Recipe

    @abstractmethod
    def covers(self, q: Array) -> Array:
        """Whether it is good for `q`."""

    @abstractmethod
    def distance(self, q: np.ndarray) -> np.ndarray:
        """How far each of several paths has gone since it was made, as a part of how far they may go."""

    @property
    @abstractmethod
    def room(self) -> int:
        """How many entries there are."""


def recipe_of(value: Any) -> Recipe | None:
    """How a parameter is made; None if it is a number of the user's."""
    return value.recipe if isinstance(value, Made) else value if isinstance(value, Recipe) else None
