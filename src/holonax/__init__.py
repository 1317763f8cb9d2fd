"""Structure-preserving simulation of constrained, stochastic mechanical systems.

Importing holonax switches JAX to float64; set the environment variable HOLONAX_ENABLE_X64=0 to leave JAX alone.
"""

import os

import jax

if os.environ.get("HOLONAX_ENABLE_X64", "1") != "0":
    jax.config.update("jax_enable_x64", True)

from holonax import eliminated, methods, systems, tableaux
from holonax.ensemble import Run, simulate
from holonax.entry import Entry
from holonax.errors import HolonaxError, InputError, SimulationError, StartError, TableauError
from holonax.initial import start
from holonax.methods import (
    VPRK,
    EulerA,
    EulerB,
    EulerMaruyama,
    EulerPrinted,
    Kicked,
    Lobatto,
    Lobatto32,
    Method,
    Rattle,
    Report,
)
from holonax.noise import Increment, increments
from holonax.observables import Mean
from holonax.path import Path, integrate
from holonax.solve import Newton, Status
from holonax.system import State, System
from holonax.tableau import Tableau

__version__ = "0.1.0"

__all__ = [
    "VPRK",
    "Entry",
    "EulerA",
    "EulerB",
    "EulerMaruyama",
    "EulerPrinted",
    "HolonaxError",
    "Increment",
    "InputError",
    "Kicked",
    "Lobatto",
    "Lobatto32",
    "Mean",
    "Method",
    "Newton",
    "Path",
    "Rattle",
    "Report",
    "Run",
    "SimulationError",
    "StartError",
    "State",
    "Status",
    "System",
    "Tableau",
    "TableauError",
    "eliminated",
    "increments",
    "integrate",
    "methods",
    "simulate",
    "start",
    "systems",
    "tableaux",
]
