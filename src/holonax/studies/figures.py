"""Figures of studies, drawn with matplotlib (extra `plot`)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.errors import InputError
from holonax.methods.base import Method
from holonax.methods.text import written
from holonax.report.numbers import with_error
from holonax.report.style import INK, house, label_ends, line_style, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from holonax.studies.efficiency import WorkPrecision
    from holonax.studies.study import Curve, Study


def short_name(method: str) -> str:
    """A method without those of its arguments that are as always: `Kicked` for `Kicked(scheme='symmetric')`."""
    try:
        return written(Method.parse(method))
    except InputError:  # one of the user's own
        return method


def order_text(curve: Curve) -> str:
    """The order with half the width of its interval, or that there is none.

    A fit through two levels has an order, but nothing to judge it by.
    """
    low, high = curve.interval
    if not np.isfinite(curve.order):
        return "below the noise"
    return with_error(curve.order, (high - low) / 2) if np.isfinite(high - low) else f"{curve.order:.2f}"


def _step_sizes(axis: Any) -> None:
    axis.set_xscale("log", base=2)
    axis.set(yscale="log", xlabel="step size h")
    axis.grid(visible=True, which="major")


def _draw(axis: Any, curve: Curve, number: int) -> str:
    """One curve with its intervals; levels that are noise are crossed out.  Returns its colour."""
    style = line_style(number)
    axis.errorbar(curve.h, curve.error, curve.half_width, capsize=2.5, elinewidth=0.8, **style)
    noise = ~curve.used
    axis.plot(curve.h[noise], curve.error[noise], "x", color=style["color"], markersize=9)
    return str(style["color"])


def _guide(axis: Any, h: np.ndarray, top: float, slope: float) -> tuple[float, float, str, str]:
    """A dashed line of that slope, through `top` at the largest h."""
    line = top * (h / h[0]) ** slope
    axis.plot(h, line, linestyle=":", color=INK, linewidth=0.9)
    return float(h[0]), float(line[0]), f"slope {slope:g}", INK


def convergence_figure(studies: Sequence[Study]) -> Figure:
    """Errors against step size, a panel per method with a curve per quantity; dotted lines have the declared slope."""
    with house():
        figure, axes = panels(len(studies), width=5.2 if len(studies) == 1 else 4.6)
        for axis, study in zip(axes, studies, strict=True):
            ends = []
            for number, (name, curve) in enumerate(study.curves.items()):
                colour = _draw(axis, curve, number)
                ends.append((float(curve.h[0]), float(curve.error[0]), f"{name}  {order_text(curve)}", colour))
            top = max(float(curve.error.max()) for curve in study.curves.values())
            ends.append(_guide(axis, study.h, 2.0 * top, study.declared))
            axis.set_title(textwrap.fill(short_name(study.method), 44))
            axis.set_ylabel(f"{study.kind} error")
            _step_sizes(axis)
            label_ends(axis, ends)
    return figure


def methods_figure(studies: Sequence[Study], quantity: str, slopes: Sequence[float]) -> Figure:
    """Errors of one quantity against step size for several methods in one panel."""
    with house():
        figure, (axis,) = panels(1)
        ends = []
        for number, study in enumerate(studies):
            curve = study[quantity]
            colour = _draw(axis, curve, number)
            label = f"{textwrap.shorten(short_name(study.method), 30, placeholder='...')}  {order_text(curve)}"
            ends.append((float(curve.h[0]), float(curve.error[0]), label, colour))
        top = max(float(study[quantity].error.max()) for study in studies)
        ends += [_guide(axis, studies[0].h, 1.6 * top, slope) for slope in slopes]
        axis.set_ylabel(f"{studies[0].kind} error of {quantity}")
        _step_sizes(axis)
        label_ends(axis, ends)
    return figure


def work_precision_figure(study: WorkPrecision) -> Figure:
    """Strong error against steps, and against measured time."""
    with house():
        figure, axes = panels(2, width=4.9)
        ends = []
        for number, method in enumerate(study.methods):
            rows = [row for row in study.rows if row.method == method]
            error = [row.error for row in rows]
            axes[0].plot([row.steps for row in rows], error, **line_style(number))
            axes[1].plot([row.seconds for row in rows], error, **line_style(number))
            ends.append((rows[-1].seconds, error[-1], short_name(method), str(line_style(number)["color"])))
        for axis, label in zip(axes, ("steps per path", "seconds per path"), strict=True):
            axis.set(xscale="log", yscale="log", xlabel=label)
            axis.grid(visible=True, which="major")
            axis.tick_params(which="minor", labelbottom=False)
        axes[0].set_ylabel("strong error of q")
        label_ends(axes[1], ends)
    return figure
