"""Convergence and efficiency, measured."""

from holonax.studies.efficiency import WorkPrecision, work_precision
from holonax.studies.orders import strong_order, strong_orders, weak_order, weak_orders
from holonax.studies.study import Curve, Study

__all__ = [
    "Curve",
    "Study",
    "WorkPrecision",
    "strong_order",
    "strong_orders",
    "weak_order",
    "weak_orders",
    "work_precision",
]
