"""Structure-preserving simulation of constrained, stochastic mechanical systems.

Importing holonax switches JAX to float64; set the environment variable HOLONAX_ENABLE_X64=0 to leave JAX alone.
"""

import os

import jax

if os.environ.get("HOLONAX_ENABLE_X64", "1") != "0":
    jax.config.update("jax_enable_x64", True)

from holonax import methods, studies, systems
from holonax.engines.explain import explain
from holonax.errors import (
    ClusterError,
    HolonaxError,
    InputError,
    Interrupted,
    SimulationError,
    StartError,
    StepSizeWarning,
    StoreError,
    TableauError,
)
from holonax.mechanics import eliminated
from holonax.mechanics.noise import Increment, increments
from holonax.mechanics.pairs import pairs
from holonax.mechanics.redundancy import independent
from holonax.mechanics.start import start
from holonax.mechanics.system import State, System
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
    tableaux,
)
from holonax.methods.path import Path, integrate
from holonax.methods.tableau import Tableau
from holonax.numerics.newton import Newton, Status
from holonax.observables import (
    Autocorrelation,
    Histogram,
    Max,
    Mean,
    Moments,
)
from holonax.observables.mean_force import MeanForce
from holonax.sampling.sample import Samples, sample
from holonax.simulation.cluster import Dask
from holonax.simulation.opening import open_run as open
from holonax.simulation.resuming import resume
from holonax.simulation.run import Run
from holonax.simulation.simulate import simulate
from holonax.studies import Curve, Study, WorkPrecision, strong_order, weak_order, work_precision
from holonax.systems.entry import Entry
from holonax.version import __version__
from holonax.viewer.drawing import Drawing, Frame

__all__ = [
    "VPRK",
    "Autocorrelation",
    "ClusterError",
    "Curve",
    "Dask",
    "Drawing",
    "Entry",
    "EulerA",
    "EulerB",
    "EulerMaruyama",
    "EulerPrinted",
    "Frame",
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
    "StoreError",
    "Study",
    "System",
    "Tableau",
    "TableauError",
    "WorkPrecision",
    "__version__",
    "eliminated",
    "explain",
    "increments",
    "independent",
    "integrate",
    "methods",
    "open",
    "pairs",
    "resume",
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
