"""Films of a scene, drawn by Matplotlib (extra `plot`), for papers and talks."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from holonax.errors import HolonaxError, InputError
from holonax.report.style import COLOURS, INK, house
from holonax.viewer.page import as_path
from holonax.viewer.scene import Scene

MOST_FRAMES, MOST_PATHS, MOST_TRAILS = 150, 300, 60
RATE = 20
"""Pictures a second."""

ACCENT = COLOURS[1]
SURFACE = {"color": "#8d9bb3", "alpha": 0.16, "linewidth": 0, "edgecolor": "none", "shade": False}


def make_movie(scene: Scene, file: str | PathLike[str]) -> None:
    """Write a film: .gif by Pillow, .mp4 by ffmpeg."""
    path = as_path(file)
    if path.suffix not in (".gif", ".mp4"):
        raise InputError(f"file = {str(path)!r}: a film is a .gif or an .mp4")
    with house():
        from matplotlib.animation import FFMpegWriter, PillowWriter

        if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
            raise HolonaxError(f"{path}: an .mp4 needs the program ffmpeg; install it, or write a .gif")
        writer: Any = (PillowWriter if path.suffix == ".gif" else FFMpegWriter)(fps=RATE)
        film = _Film(scene)
        try:
            with writer.saving(film.figure, str(path), dpi=110):
                for time in range(0, len(scene.t), -(-len(scene.t) // MOST_FRAMES)):
                    film.show(time)
                    writer.grab_frame()
        except OSError as error:
            raise HolonaxError(f"cannot write {path}: {error.strerror or type(error).__name__}") from None


class _Film:
    """A figure whose artists move."""

    def __init__(self, scene: Scene) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.scene = scene
        self.kept = np.arange(0, len(scene.paths), -(-len(scene.paths) // MOST_PATHS))
        self.figure = Figure(figsize=(5.6, 5.2), layout="constrained")
        FigureCanvasAgg(self.figure)
        flat = scene.dimension == 2
        self.axis: Any = self.figure.add_subplot(projection=None if flat else "3d")
        self._frame()
        self._surface()
        self.dots = self.axis.plot(*self._nothing, "o", color=COLOURS[0], markersize=3.2, markeredgewidth=0)[0]
        self.bad = self.axis.plot(*self._nothing, "o", color=COLOURS[4], markersize=3.2, markeredgewidth=0)[0]
        trails = len(self.kept[:MOST_TRAILS]) if scene.points.shape[2] <= 3 else 1
        self.trails = [
            self.axis.plot(*self._nothing, color=COLOURS[0], linewidth=0.7, alpha=0.35)[0]
            for _ in range(trails * scene.points.shape[2])
        ]
        self.rods = [self.axis.plot(*self._nothing, color=INK, linewidth=1.4)[0] for _ in scene.rods]
        self.edges = [self.axis.plot(*self._nothing, color=ACCENT, linewidth=1.4)[0] for _ in self._boxes(0)]

    @property
    def _nothing(self) -> list[list[float]]:
        return [[] for _ in range(self.scene.dimension)]

    def _frame(self) -> None:
        """Equal scales around everything, no axes."""
        scene = self.scene
        corners = [*scene.box, *scene.anchors]
        if scene.surface is not None and len(scene.surface.corners):
            corners += [scene.surface.corners.min(axis=0), scene.surface.corners.max(axis=0)]
        low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        if scene.bodies is not None:
            low, high = low - scene.bodies.sizes.max() / 2, high + scene.bodies.sizes.max() / 2
        middle, reach = (low + high) / 2, 1.05 * (float(np.max(high - low)) / 2 or 1.0)
        for name, place in zip("xyz", middle, strict=False):
            self.axis.set(**{f"{name}lim": (place - reach, place + reach)})
        self.axis.set_axis_off()
        if scene.dimension == 2:
            self.axis.set_aspect("equal")
        else:
            self.axis.set_box_aspect((1, 1, 1), zoom=1.25)
            self.axis.view_init(elev=20, azim=-60)
        self.clock = self.figure.text(0.03, 0.03, "", fontsize=9)
        self.figure.text(0.03, 0.95, scene.title, fontsize=11)

    def _surface(self) -> None:
        mesh = self.scene.surface
        if mesh is None or not len(mesh.cells):
            return
        if self.scene.dimension == 3:
            self.axis.plot_trisurf(*mesh.corners.T, triangles=mesh.cells, **SURFACE, antialiased=False)
        else:
            from matplotlib.collections import LineCollection

            self.axis.add_collection(LineCollection(mesh.corners[mesh.cells], color="#8d9bb3", linewidth=1))

    def _boxes(self, time: int) -> list[np.ndarray]:
        """The edges of the bodies of the first path, each (2, 3)."""
        bodies = self.scene.bodies
        if bodies is None:
            return []
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / 2
        pairs = [(i, j) for i in range(8) for j in range(i) if np.abs(signs[i] - signs[j]).sum() == 1]
        found = []
        for turn, middle, size in zip(bodies.turns[0, time], bodies.middles[0, time], bodies.sizes, strict=True):
            corners = (signs * size) @ turn.reshape(3, 3).T + middle
            found += [corners[list(pair)] for pair in pairs]
        return found

    def show(self, time: int) -> None:
        """Move everything to a time."""
        scene = self.scene
        here = scene.points[self.kept, time]  # (paths, points, d)
        failed = scene.failed_at[self.kept] <= scene.t[time]
        self._put(self.dots, here[~failed].reshape(-1, scene.dimension))
        self._put(self.bad, here[failed].reshape(-1, scene.dimension))
        begin = max(0, time - scene.trails)
        for i, line in enumerate(self.trails):
            path, point = divmod(i, here.shape[1])
            self._put(line, scene.points[self.kept[path], begin : time + 1, point])
        places = np.concatenate([here[0], scene.anchors])
        for line, rod in zip(self.rods, scene.rods, strict=True):
            self._put(line, places[rod])
        for line, edge in zip(self.edges, self._boxes(time), strict=True):
            self._put(line, edge)
        self.clock.set_text(f"t = {scene.t[time]:.4g}")

    def _put(self, line: Any, places: np.ndarray) -> None:
        if self.scene.dimension == 2:
            line.set_data(*places.T)
        else:
            line.set_data_3d(*places.T)
