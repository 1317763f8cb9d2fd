"""A scene as one HTML file: a player with everything that it needs inside, so that it works without a network."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.errors import HolonaxError, InputError, shown
from holonax.version import __version__
from holonax.viewer.encode import exact, integers, quantised
from holonax.viewer.scene import Scene, bounds

MOST_EXACT = 100_000
"""Numbers that are kept in full, to be shown when a path is picked: a megabyte."""

FEW = 9
"""Systems of so many coordinates offer each of them as a quantity."""

SCRIPTS = ("data.js", "shaders.js", "camera.js", "stage.js", "plot.js", "main.js")
"""In this order; they share one scope."""

BAND = (0.05, 0.95)
"""The quantiles between which the band of a plot is."""

ENDS = (0.01, 0.99)
"""The quantiles at the ends of the scale of colours, so that a few paths far off do not leave it to themselves."""


@final
@dataclass(frozen=True)
class Page:
    """A page that plays paths.  A notebook shows it; `save` writes it.

    Attributes:
        html: all of it.
        title: its title.
        notes: sentences on what was left out or reduced.
    """

    html: str
    title: str
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.html) / 1e6:.2f} MB)"

    def _repr_html_(self) -> str:
        """In a frame of its own, so that neither its style nor its keys reach the notebook."""
        frame = 'width="100%" height="600" style="border:0;border-radius:12px" allow="fullscreen"'
        return f'<iframe title="{escape(self.title)}" {frame} srcdoc="{escape(self.html)}"></iframe>'

    def save(self, file: str | PathLike[str]) -> Path:
        """Write the page to a file."""
        path = as_path(file)
        try:
            path.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise HolonaxError(f"cannot write {path}: {error.strerror or type(error).__name__}") from None
        return path


def as_path(file: str | PathLike[str]) -> Path:
    """A path to write to, or an InputError."""
    if not isinstance(file, (str, PathLike)) or not str(file):
        raise InputError(f"file = {shown(file)}: pass the name of a file to write")
    return Path(file)


def make_page(scene: Scene) -> Page:
    """The page of a scene."""
    told = json.dumps(_header(scene), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": escape(scene.title),
        "version": __version__,
        "release": _asset("three.version").strip(),
        "css": _asset("page.css"),
        "scene": told,
        "library": _asset("three.min.js"),
        "js": "".join(_asset(name) for name in SCRIPTS),
    }
    html = re.sub("@([a-z]+)@", lambda found: parts[found[1]], _asset("page.html"))
    return Page(html, scene.title, scene.notes)


@cache
def _asset(name: str) -> str:
    return (files("holonax.viewer") / "assets" / name).read_text(encoding="utf-8")


def _header(scene: Scene) -> dict[str, Any]:
    """All that the scripts are told."""
    paths, times, number, d = scene.points.shape
    points = _over_time(scene.points).reshape(times, paths * number, d)
    frames = np.searchsorted(scene.t, scene.failed_at)  # the first time that is not before the failure
    return {
        "title": scene.title,
        "facts": scene.facts,
        "notes": scene.notes,
        "dimension": d,
        "n": scene.q.shape[-1],
        "t": scene.t.tolist(),
        "paths": scene.paths.tolist(),
        "status": scene.status.tolist(),
        "failed": [int(i) if bad else None for i, bad in zip(frames, scene.status > 0, strict=True)],
        "statuses": {str(code): name for code, name in scene.statuses.items()},
        "points": quantised(points, *bounds(points.reshape(-1, d))),
        "indices": None if scene.indices is None else scene.indices.tolist(),
        "stride": scene.stride,
        "rods": scene.rods.tolist(),
        "anchors": scene.anchors.tolist(),
        "sizes": None if np.all(scene.sizes == 1) else scene.sizes.tolist(),
        "trails": scene.trails,
        "surface": _surface(scene),
        "bodies": _bodies(scene),
        "quantities": _quantities(scene),
        "exact": _exact(scene),
    }


def _over_time(values: np.ndarray) -> np.ndarray:
    """Times first."""
    return np.ascontiguousarray(np.swapaxes(values, 0, 1))


def _surface(scene: Scene) -> dict[str, Any] | None:
    if scene.surface is None or not len(scene.surface.cells):
        return None
    corners, cells = scene.surface
    return {"corners": quantised(corners[None], *bounds(corners)), "cells": integers(cells)}


def _bodies(scene: Scene) -> dict[str, Any] | None:
    if scene.bodies is None:
        return None
    turns, middles = (
        _over_time(x).reshape(len(scene.t), -1, x.shape[-1]) for x in (scene.bodies.turns, scene.bodies.middles)
    )
    return {
        "turns": quantised(turns, np.full(9, -1.0), np.full(9, 1.0)),
        "middles": quantised(middles, *bounds(middles.reshape(-1, 3))),
        "sizes": scene.bodies.sizes.tolist(),
    }


def _quantities(scene: Scene) -> list[dict[str, Any]]:
    """What paths are coloured and plotted by; coordinates of points are told by where they are among these."""
    found = []
    for name, values in scene.quantities.items():
        by_time = _over_time(values)[..., None]
        found.append(
            {"name": name, "values": quantised(by_time, *bounds(by_time.reshape(-1, 1))), **_statistics(values)}
        )
    if scene.indices is not None and scene.indices.size <= FEW:
        for point, row in enumerate(scene.indices):
            for axis, i in enumerate(row):
                told = _statistics(scene.points[:, :, point, axis])
                found.append({"name": f"q[{i}]", "point": point, "axis": axis, **told})
    return found


def _statistics(values: np.ndarray) -> dict[str, Any]:
    """Mean and band over the paths at every time, of the values that are finite, and the range of all."""
    known = np.ma.masked_invalid(values)
    kept = np.where(np.isfinite(values), values, np.nan)
    some = np.isfinite(kept).any(axis=0)
    band, ends = np.full((2, values.shape[1]), np.nan), np.zeros(2)
    if some.any():
        ends = np.nanquantile(kept, ENDS)
        band[:, some] = np.nanquantile(kept[:, some], BAND, axis=0)
    return {
        "mean": _numbers(known.mean(axis=0).filled(np.nan)),
        "low": _numbers(band[0]),
        "high": _numbers(band[1]),
        "range": {"low": float(ends[0]), "high": float(ends[1])},
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    """For JSON, which knows no NaN: seven digits are more than a plot shows."""
    return [float(f"{x:.7g}") if np.isfinite(x) else None for x in values.tolist()]


def _exact(scene: Scene) -> dict[str, Any] | None:
    """States and quantities of as many paths as there is room for, evenly spread."""
    paths, times, n = scene.q.shape
    width = n + len(scene.quantities)
    stride = -(-paths * times * width // MOST_EXACT)
    chosen = np.arange(0, paths, stride)
    if len(chosen) * times * width > MOST_EXACT:
        return None
    values = np.concatenate([scene.q[chosen], *(x[chosen, :, None] for x in scene.quantities.values())], axis=2)
    return {"paths": chosen.tolist(), **exact(values)}
