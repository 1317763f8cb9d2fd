"""Structure-preserving simulation of constrained, stochastic mechanical systems.

Importing holonax switches JAX to float64; set the environment variable HOLONAX_ENABLE_X64=0 to leave JAX alone.
"""

import os

import jax

if os.environ.get("HOLONAX_ENABLE_X64", "1") != "0":
    jax.config.update("jax_enable_x64", True)

from holonax import eliminated, methods, studies, systems, tableaux
from holonax.ensemble import simulate
from holonax.entry import Entry
from holonax.errors import (
    HolonaxError,
    InputError,
    Interrupted,
    SimulationError,
    StartError,
    StepSizeWarning,
    TableauError,
)
from holonax.free_energy import MeanForce
from holonax.initial import start
from holonax.methods import (
    VPRK,
    EulerA,
    EulerB,
    EulerMaruyama,
    EulerPrinted,
    Kicked,
    Langevin,
    Lobatto,
    Lobatto32,
    Method,
    Rattle,
    Report,
)
from holonax.noise import Increment, increments
from holonax.observables import Autocorrelation, Histogram, Max, Mean, Moments
from holonax.path import Path, integrate
from holonax.run import Run
from holonax.sampling import Samples, sample
from holonax.solve import Newton, Status
from holonax.studies import Curve, Study, WorkPrecision, strong_order, weak_order, work_precision
from holonax.system import State, System
from holonax.tableau import Tableau
from holonax.version import __version__

__all__ = [
    "VPRK",
    "Autocorrelation",
    "Curve",
    "Entry",
    "EulerA",
    "EulerB",
    "EulerMaruyama",
    "EulerPrinted",
    "Histogram",
    "HolonaxError",
    "Increment",
    "InputError",
    "Interrupted",
    "Kicked",
    "Langevin",
    "Lobatto",
    "Lobatto32",
    "Max",
    "Mean",
    "MeanForce",
    "Method",
    "Moments",
    "Newton",
    "Path",
    "Rattle",
    "Report",
    "Run",
    "Samples",
    "SimulationError",
    "StartError",
    "State",
    "Status",
    "StepSizeWarning",
    "Study",
    "System",
    "Tableau",
    "TableauError",
    "WorkPrecision",
    "__version__",
    "eliminated",
    "increments",
    "integrate",
    "methods",
    "sample",
    "simulate",
    "start",
    "strong_order",
    "studies",
    "systems",
    "tableaux",
    "weak_order",
    "work_precision",
]
