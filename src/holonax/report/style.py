"""The house style of figures: few lines, direct labels, colours that differ in grey too (extra `plot`)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.errors import HolonaxError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1c2733"
"""Of text and axes; in a page it becomes the colour of the page's text, light or dark."""

COLOURS = ("#1483a3", "#e8680c", "#7a56e0", "#2f9e55", "#d6336c", "#8a8f98")
MARKERS = "osD^vP"
DASHES = ("-", (0, (6, 1.5)), (0, (4, 1, 1, 1)), (0, (2, 1)), (0, (8, 2, 2, 2)), (0, (1, 1)))

_SETTINGS: dict[str, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9.5,
    "grid.alpha": 0.35,
    "grid.color": "#98a2ad",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "holonax",  # the same figure is the same file
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def house() -> Iterator[None]:
    """Figures that are made inside have the style of the house."""
    try:
        import matplotlib
    except ImportError as error:
        raise HolonaxError("figures need matplotlib: pip install 'holonax[plot]'") from error
    with matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]
        yield


def panels(columns: int, width: float = 5.2, height: float = 3.8) -> tuple[Any, list[Any]]:
    """A figure and its axes, side by side; to be called inside `house`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns)))


def line_style(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the line of that number: two of the three tell it apart in grey."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


_APART = 0.075  # of the height of the axes, from label to label


def label_ends(axis: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Labels on the right of the axes instead of a legend, each as high as its line ends there, none upon another.

    Args:
        axis: the axes; their limits and scales must be as they are to stay.
        ends: x and y of the end of each line, its label and its colour.
    """
    axis.get_xlim(), axis.get_ylim()  # limits that follow from the lines are found when they are asked for
    to_axes = axis.transData + axis.transAxes.inverted()
    heights = [float(to_axes.transform((x, y))[1]) for x, y, _, _ in ends]
    order = np.argsort(heights)
    places = np.array(heights)[order]
    for _ in range(200):  # push neighbours apart until all have room
        gaps = np.diff(places)
        close = gaps < _APART - 1e-9
        if not close.any():
            break
        push = np.where(close, (_APART - gaps) / 2, 0.0)
        places[1:] += push
        places[:-1] -= push
    places += max(0.0, -float(places.min(initial=0.0)))
    for place, which in zip(places, order, strict=True):
        x, y, label, colour = ends[which]
        axis.annotate(
            label,
            (x, y),
            xytext=(1.04, place),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.6},
            annotation_clip=False,
        )


def as_svg(figure: Figure) -> str:
    """A figure as an SVG element for a page: no addresses from outside, no background, ink of the page's colour."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    drawing = buffer.getvalue()
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = drawing[drawing.index("<svg") :]
    return drawing.replace(INK, "currentColor")
