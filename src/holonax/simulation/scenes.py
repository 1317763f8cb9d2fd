"""What of a run is drawn: points, what the constraints make of them, and numbers of every state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError
from holonax.inputs.checks import instance
from holonax.inputs.foreign import Foreign
from holonax.inputs.parameters import asked_for, shape_of
from holonax.mechanics.closures import QUICKLY
from holonax.mechanics.system import System
from holonax.numerics.newton import Status
from holonax.simulation.rods import Linkage, is_planar
from holonax.viewer.drawing import Drawing
from holonax.viewer.level_set import FINE
from holonax.viewer.overview import Series
from holonax.viewer.scene import Bodies, Scene, bounds, thinning

if TYPE_CHECKING:
    from holonax.simulation.run import Run

MOST_WORK = 3e10
"""Operations that the energies of all states may take, at n^3 for each."""

_COORDINATES = 3  # that a plot shows if nothing else is asked for


def scene_of(
    run: Run,
    drawing: Drawing | None = None,
    quantities: Mapping[str, Callable[..., Any]] | None = None,
    title: str | None = None,
    cells: int = FINE,
) -> Scene:
    """The scene of a run; what is left out is found from its system, if the run knows it.

    `cells` is how finely the surface is drawn.
    """
    model = run.model
    if drawing is None:
        drawing = (model.drawing if model is not None else None) or Drawing()
    instance("drawing", drawing, Drawing, "pass hx.Drawing(...)")
    paths, times, n = run.q.shape
    if paths == 0 or times == 0:
        raise InputError(f"the run has {paths} paths at {times} times: there is nothing to draw")
    drawing = _in_a_plane(drawing, run)
    indices = drawing.indices(n)
    count, dimension = _shape_of_points(drawing, indices, n)
    drawing.check_numbers(count, dimension)
    every = thinning(paths, times, count, count * dimension + 12 * len(drawing.frames))
    q, p = (np.asarray(x[:: every.path, :: every.time]) for x in (run.q, run.p))
    states = _States(run, q, p, every.path)
    points = _points(drawing, indices, q)
    box = bounds(points.reshape(-1, dimension))
    found = Linkage.of(drawing, states.model, states.q[0, 0], indices, box, cells, alike=not states.constraints_differ)
    chosen = slice(None, None, every.point)
    status, failed = run.status[:: every.path], run.failed_step[:: every.path]
    notes = [*every.notes(paths, times, count), *_notes(run, points)]
    if states.constraints_differ:
        notes.append("The constraints of every path have values of their own: what they make is not drawn.")
    if every.point > 1 and len(found.rods):
        found = found._replace(rods=np.zeros((0, 2), int))
        notes.append("Rods are not drawn, since not all points are.")
    return Scene(
        title=_title(run) if title is None else str(title),
        facts=(f"{paths:,} paths" if paths > 1 else "1 path", str(run.method), f"h = {run.h:g}", f"seed {run.seed}"),
        notes=tuple(notes),
        t=np.asarray(run.t[:: every.time]),
        paths=np.arange(0, paths, every.path),
        q=q,
        points=points[:, :, chosen],
        stride=every.point,
        indices=None if indices is None else np.array(indices)[chosen],
        status=status,
        failed_at=np.where(status > 0, run.t[0] + failed * run.h if times > 1 else -np.inf, np.inf),
        statuses={int(code): Status(code).name for code in np.unique(run.status) if code >= 0},
        rods=found.rods,
        anchors=found.anchors,
        bodies=_bodies(drawing, q),
        sizes=np.ones(count)[chosen] if drawing.sizes is None else np.array(drawing.sizes)[chosen],
        trails=drawing.trails,
        surface=found.surface,
        quantities=_quantities(states, quantities or {}),
    )


def series_of(run: Run, quantities: Mapping[str, Callable[..., Any]] | None = None) -> Series:
    """What `run.plot` draws: the quantities that are asked for, or the first three coordinates."""
    paths, times, n = run.q.shape
    if paths == 0 or times == 0:
        raise InputError(f"the run has {paths} paths at {times} times: there is nothing to draw")
    every = thinning(paths, times, 1, n)
    q, p = (np.asarray(x[:: every.path, :: every.time]) for x in (run.q, run.p))
    numbers = _asked(_States(run, q, p, every.path), quantities or {})
    some = not numbers and n > _COORDINATES
    numbers = numbers or {f"q[{i}]": q[..., i] for i in range(min(n, _COORDINATES))}
    failed = int(np.count_nonzero(run.status > 0))
    title = f"{_title(run)}: {failed} of {paths} paths failed, and stay where they were" if failed else _title(run)
    return Series(np.asarray(run.t[:: every.time]), q, p, numbers, title, run.units, some)


class _States(NamedTuple):
    """The states that are drawn, (paths, times, n), of every so many-th path of a run."""

    run: Run
    q: np.ndarray
    p: np.ndarray
    every: int

    @property
    def model(self) -> System | None:
        """The system that ran, with the values that all paths have in common."""
        model = self.run.model
        return None if model is None else model.given({**model.parameters, **self._values(model)[0]})

    def _values(self, model: System) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values of the parameters: those of all paths, and those that each path has of its own."""
        shared: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for name, value in self.run.parameters.items():
            is_shared = name not in model.parameters or shape_of(model.parameters[name]) == shape_of(value)
            (shared if is_shared else own)[name] = value
        return shared, {name: value[:: self.every] for name, value in own.items()}

    @property
    def constraints_differ(self) -> bool:
        """Whether the constraints ask for a parameter that each path has of its own."""
        model = self.run.model
        if model is None or model.constraint is None:
            return False
        return bool(asked_for(model.constraint, self._values(model)[1]))

    def each(self, function: Callable[..., Array], model: System | None) -> np.ndarray:
        """`function(q, p, system)` of every state, with the parameters of its path, shape (paths, times)."""
        own = self._values(model)[1] if model is not None else {}

        def along(q: Array, p: Array, values: dict[str, Any]) -> Array:
            system = model.given({**model.parameters, **values}) if model is not None else None
            return jax.vmap(lambda q, p: jnp.asarray(function(q, p, system), float))(q, p)

        return np.asarray(jax.jit(jax.vmap(along), compiler_options=QUICKLY)(self.q, self.p, own))


def _in_a_plane(drawing: Drawing, run: Run) -> Drawing:
    """Of coordinates that could be points in a plane or in space, the constraints say which."""
    open_question = replace(drawing, trails=0, surface=True) == Drawing(trails=0) and run.q.shape[-1] % 2 == 0
    if not open_question or run.model is None or run.model.constraint is None or run.model.recipes:
        return drawing
    return replace(drawing, dimension=2) if is_planar(run.model, np.asarray(run.q[0, 0])) else drawing


def _shape_of_points(drawing: Drawing, indices: Any, n: int) -> tuple[int, int]:
    """How many points there are, and in how many dimensions."""
    if indices is not None:
        return len(indices), len(indices[0])
    if drawing.points is None:
        return len(drawing.frames), 3
    foreign = Foreign("points", drawing.points, ("q",), "array")  # type: ignore[arg-type]
    foreign.check(remembered=False)
    shape = foreign.result(n).shape
    if len(shape) != 2 or shape[1] not in (2, 3) or shape[0] == 0:
        raise InputError(f"points returns shape {shape}: it must be (points, 2) or (points, 3)")
    return shape[0], shape[1]


def _points(drawing: Drawing, indices: Any, q: np.ndarray) -> np.ndarray:
    """Places, shape (paths, times, points, 2 or 3)."""
    if indices is not None:
        return q[..., np.array(indices)]
    if drawing.points is not None:
        function: Any = drawing.points
        return np.asarray(jax.jit(jax.vmap(jax.vmap(lambda q: jnp.asarray(function(q), float))))(q))
    ends = [frame.middle(q) + frame.turns(q)[..., 2::3] * frame.size[2] / 2 for frame in drawing.frames]
    return np.stack(ends, axis=2)


def _bodies(drawing: Drawing, q: np.ndarray) -> Bodies | None:
    if not drawing.frames:
        return None
    turns, middles = (np.stack([one(q) for one in f], axis=2) for f in (
        [frame.turns for frame in drawing.frames], [frame.middle for frame in drawing.frames]
    ))  # fmt: skip
    return Bodies(turns, middles, np.array([frame.size for frame in drawing.frames]))


def _asked(states: _States, quantities: Mapping[str, Callable[..., Any]]) -> dict[str, np.ndarray]:
    """The quantities that are asked for, of every state."""
    found = {}
    for name, function in quantities.items():
        foreign = Foreign(f"quantity {name!r}", function, ("q", "p"), "value")
        foreign.check(remembered=False)
        foreign.result(states.q.shape[-1])
        found[str(name)] = states.each(lambda q, p, _, function=function: function(q, p), None)
    return found


def _quantities(states: _States, asked: Mapping[str, Callable[..., Any]]) -> dict[str, np.ndarray]:
    """Those that are asked for, and the energy, unless one of them is called so."""
    found = _asked(states, asked)
    return found if "energy" in found else found | _energy(states)


def _energy(states: _States) -> dict[str, np.ndarray]:
    """The energy of every state, if it can be had in a moment."""
    (paths, times, n), model = states.q.shape, states.model
    if model is None or model.recipes or paths * times * n**3 > MOST_WORK:
        return {}
    return {"energy": states.each(lambda q, p, system: system.energy(q, p), model)}


def _title(run: Run) -> str:
    """The name of the function that the system was made in."""
    name = getattr(getattr(run.model, "lagrangian", None), "__qualname__", "")
    return name.split(".")[0].replace("_", " ") if "<locals>" in name else "Run"


def _notes(run: Run, points: np.ndarray) -> list[str]:
    """Sentences on what is unusual."""
    told = []
    if failed := int(np.count_nonzero(run.status > 0)):
        told.append(f"{failed:,} of {len(run.status):,} paths failed; they stay where they were, in red.")
    if missing := int(np.count_nonzero(~np.isfinite(points).all(axis=-1))):
        told.append(f"{missing:,} points are not finite numbers and are left out.")
    if run.model is None:
        told.append("The run does not know its system: its constraints and its energy are not shown.")
    if run.q.shape[1] == 1:
        told.append("One time was saved: there is nothing to play.")
    return told
