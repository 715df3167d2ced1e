"""Measures, one file each: robustness, privacy and cost of a defense on a task."""

from fflbench.measures.measure import Context, Curve, Measure, Outcome
from fflbench.metrics import Metric, share
from fflbench.records.validation import RecordFields

__all__ = ["Context", "Curve", "Measure", "Metric", "Outcome", "RecordFields", "share"]
