"""Figures with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and how far the truth may be from it."""

    mean: float
    half_width: float | None
    """Of the 95% interval; none with fewer than two seeds."""
    seeds: int


def estimate(values: Sequence[float]) -> Estimate:
    """The mean with its 95% interval by Student's t."""
    n = len(values)
    if n < 2:
        return Estimate(fmean(values), None, n)
    # The quantile alone: scipy.stats takes a second to import.
    from scipy.special import stdtrit

    return Estimate(fmean(values), float(stdtrit(n - 1, 0.975)) * stdev(values) / math.sqrt(n), n)
