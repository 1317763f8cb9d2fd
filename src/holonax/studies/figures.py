"""Figures of studies, drawn with matplotlib (extra `plot`)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.errors import HolonaxError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from holonax.studies.efficiency import WorkPrecision
    from holonax.studies.study import Study

_MARKERS = "osD^vPX*"


def _figure(panels: int, width: float = 5.2, height: float = 4.2) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise HolonaxError("figures need matplotlib: pip install 'holonax[plot]'") from error
    figure = Figure(figsize=(width * panels, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, panels)))


def _step_sizes(axis: Any) -> None:
    axis.set_xscale("log", base=2)
    axis.set(yscale="log", xlabel="step size h")
    axis.grid(visible=True, which="both", alpha=0.25)


def convergence_figure(studies: Sequence[Study]) -> Figure:
    """Errors against step size, one panel per method with a curve per quantity; dashed lines have the declared slope.

    The paper's convention: position in cyan, momentum in green.
    """
    figure, axes = _figure(len(studies), width=4.2 if len(studies) > 1 else 5.2)
    for axis, study in zip(axes, studies, strict=True):
        colours = {"q": "tab:cyan", "p": "tab:green"}
        top = 0.0
        for (name, curve), marker in zip(study.curves.items(), _MARKERS * 4, strict=False):
            colour = colours.get(name)
            label = f"{name}: order {curve.order:.2f}" if curve.used.sum() > 1 else f"{name}: noise"
            bars = axis.errorbar(
                curve.h, curve.error, curve.half_width, marker=marker, capsize=3, color=colour, label=label
            )
            noise = ~curve.used
            axis.plot(curve.h[noise], curve.error[noise], "x", color=bars[0].get_color(), markersize=10)
            top = max(top, float(curve.error.max()))
        guide = 2.0 * top * (study.h / study.h[0]) ** study.declared
        axis.plot(study.h, guide, "k--", linewidth=1, label=f"slope {study.declared:g}")
        axis.set_title(textwrap.fill(study.method, 48), fontsize=9)
        axis.set_ylabel(f"{study.kind} error")
        _step_sizes(axis)
        axis.legend(fontsize=8)
    return figure


def methods_figure(studies: Sequence[Study], quantity: str, slopes: Sequence[float]) -> Figure:
    """Errors of one quantity against step size for several methods in one panel."""
    figure, (axis,) = _figure(1, width=6.4, height=4.8)
    for study, marker in zip(studies, _MARKERS * 4, strict=False):
        curve = study[quantity]
        label = f"{study.method}: {curve.order:.2f}" if curve.used.sum() > 1 else f"{study.method}: noise"
        axis.errorbar(curve.h, curve.error, curve.half_width, marker=marker, capsize=3, label=label)
    h = studies[0].h
    top = max(float(study[quantity].error.max()) for study in studies)
    for slope in slopes:
        axis.plot(h, 1.5 * top * (h / h[0]) ** slope, "k--", linewidth=0.8)
        axis.annotate(f"{slope:g}", (h[-1], 1.5 * top * (h[-1] / h[0]) ** slope), fontsize=8)
    axis.set_ylabel(f"{studies[0].kind} error of {quantity}")
    _step_sizes(axis)
    axis.legend(fontsize=8)
    return figure


def work_precision_figure(study: WorkPrecision) -> Figure:
    """Strong error against steps, and against measured time."""
    figure, axes = _figure(2)
    for method, marker in zip(study.methods, _MARKERS * 4, strict=False):
        rows = [row for row in study.rows if row.method == method]
        error = [row.error for row in rows]
        axes[0].plot([row.steps for row in rows], error, marker=marker, label=method)
        axes[1].plot([row.seconds for row in rows], error, marker=marker, label=method)
    for axis, label in zip(axes, ("steps per path", "seconds per path"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="strong error of q")
        axis.grid(visible=True, which="both", alpha=0.25)
        axis.tick_params(which="minor", labelbottom=False)
    axes[0].legend(fontsize=8)
    return figure
