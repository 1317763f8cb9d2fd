"""Statistics that are gathered while the paths run and need no stored trajectory.

An observable reduces blocks of states to a small summary on the device; summaries of different paths and times combine
associatively, and the last one becomes the result.  A new observable is one subclass of `Observable`.
"""

from holonax.observables.autocorrelation import Autocorrelation, AutocorrelationResult
from holonax.observables.base import Observable
from holonax.observables.histogram import Histogram, HistogramResult
from holonax.observables.maximum import Max, MaxResult
from holonax.observables.mean import Mean, MeanResult
from holonax.observables.moments import Moments, MomentsResult
from holonax.observables.view import Grid, Readings, View

__all__ = [
    "Autocorrelation",
    "AutocorrelationResult",
    "Grid",
    "Histogram",
    "HistogramResult",
    "Max",
    "MaxResult",
    "Mean",
    "MeanResult",
    "Moments",
    "MomentsResult",
    "Observable",
    "Readings",
    "View",
]
