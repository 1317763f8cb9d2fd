"""What a convergence study found: curves of error against step size, as numbers, table, figure or dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from holonax.errors import HolonaxError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True)
class Curve:
    """Errors of one quantity at the step sizes `h`, and the order fitted to them.

    Attributes:
        h: step sizes, largest first.
        error: error at each of them.
        half_width: half-width of the 95 % interval of each error.
        used: which levels the fit uses; a weak error below twice its half-width is noise and left out.
        order: fitted order.
        interval: 95 % interval of the order.
        mean_abs: mean of the absolute errors (strong studies).
    """

    h: np.ndarray
    error: np.ndarray
    half_width: np.ndarray
    used: np.ndarray
    order: float
    interval: tuple[float, float]
    mean_abs: np.ndarray | None = None

    @property
    def told(self) -> str:
        """The order and its interval, as far as there are any."""
        low, high = self.interval
        if not np.isfinite(self.order):
            return "not found: the errors are below the noise"
        return f"{self.order:.3f}" + (f"  [{low:.3f}, {high:.3f}]" if np.isfinite(high - low) else "")

    @property
    def slopes(self) -> np.ndarray:
        """Local slopes between neighbouring levels."""
        return np.diff(np.log(self.error)) / np.diff(np.log(self.h))


@final
@dataclass(frozen=True, repr=False)
class Study:
    """A strong or weak convergence study of one method; `study["q"]` is a `Curve`.

    Attributes:
        kind: "strong" or "weak".
        method: the method, as text.
        declared: the order that the method declares.
        h: step sizes, largest first.
        curves: the curves by name.
        reference: what the errors are against, as text.
        paths: number of paths that all levels completed.
        failed: number of paths that failed at some level, per level; the reference last.
        specification: the parameters of the study; with system and method they are enough to run it again.
    """

    kind: str
    method: str
    declared: float
    h: np.ndarray
    curves: Mapping[str, Curve]
    reference: str
    paths: int
    failed: np.ndarray
    specification: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Curve:
        return self.curves[name]

    @property
    def notes(self) -> list[str]:
        """What a reader must know: paths that failed, levels that are noise."""
        notes = []
        if self.failed.any():
            levels = [*(f"h = {h:g}" for h in self.h), "the reference"]
            where = ", ".join(f"{n} at {level}" for n, level in zip(self.failed, levels, strict=True) if n)
            notes.append(
                f"paths that failed and are left out at every level, which biases the errors: {where}; leave out the "
                "largest step sizes"
            )
        for name, curve in self.curves.items():
            if not curve.used.all():
                noise = ", ".join(f"{h:g}" for h in curve.h[~curve.used])
                notes.append(f"{name}: below twice its interval, hence noise and not fitted, at h = {noise}")
            if curve.used.sum() < 2:
                notes.append(f"{name}: fewer than two levels above the noise, no order; use more paths or larger h")
        return notes

    def __repr__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Level, error, interval and local slope of every curve, as text."""
        lines = [f"{self.kind} errors of {self.method}, {self.paths} paths, against {self.reference}"]
        for name, curve in self.curves.items():
            lines.append(f"  {name}: order {curve.told}  (declared {self.declared:g})")
            lines.append(f"    {'h':>12} {'error':>12} {'+-':>10} {'slope':>7}")
            slopes = [None, *curve.slopes]
            for h, error, width, used, slope in zip(
                curve.h, curve.error, curve.half_width, curve.used, slopes, strict=True
            ):
                text = "" if slope is None else f"{slope:7.3f}"
                lines.append(f"    {h:12.6g} {error:12.4e} {width:10.1e} {text:>7}{'' if used else '  noise'}")
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def rows(self) -> list[dict[str, Any]]:
        """One record per curve and level, for files."""
        return [
            {
                "kind": self.kind,
                "method": self.method,
                "quantity": name,
                "h": float(h),
                "error": float(error),
                "half_width": float(width),
                "mean_abs": None if curve.mean_abs is None else float(curve.mean_abs[i]),
                "used": bool(used),
                "order": curve.order,
                "order_low": curve.interval[0],
                "order_high": curve.interval[1],
            }
            for name, curve in self.curves.items()
            for i, (h, error, width, used) in enumerate(
                zip(curve.h, curve.error, curve.half_width, curve.used, strict=True)
            )
        ]

    def plot(self) -> Figure:
        """Log-log figure: one curve per quantity with error bars, and dashed reference slopes."""
        from holonax.studies.figures import convergence_figure

        return convergence_figure([self])

    def to_xarray(self) -> Any:
        """The numbers as an `xarray.Dataset` with dimensions `quantity` and `h`."""
        try:
            import xarray
        except ImportError as error:
            raise HolonaxError("to_xarray needs xarray: pip install 'holonax[store]'") from error
        names = list(self.curves)
        curves = [self.curves[name] for name in names]
        dimensions = ("quantity", "h")
        data = {
            "error": (dimensions, np.stack([curve.error for curve in curves])),
            "half_width": (dimensions, np.stack([curve.half_width for curve in curves])),
            "used": (dimensions, np.stack([curve.used for curve in curves])),
            "order": ("quantity", [curve.order for curve in curves]),
            "order_low": ("quantity", [curve.interval[0] for curve in curves]),
            "order_high": ("quantity", [curve.interval[1] for curve in curves]),
        }
        mean_abs = [curve.mean_abs for curve in curves if curve.mean_abs is not None]
        if len(mean_abs) == len(curves):
            data["mean_abs"] = (dimensions, np.stack(mean_abs))
        attributes = {"kind": self.kind, "method": self.method, "reference": self.reference, "paths": self.paths}
        return xarray.Dataset(data, coords={"quantity": names, "h": self.h}, attrs=attributes)
