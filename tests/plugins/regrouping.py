"""Means of all pairs of updates. An example of a pre-aggregation that changes the number of rows."""

from itertools import combinations

import numpy as np

from fflbench.registration import preaggregation
from fflbench.types import Coefficients, Matrix


@preaggregation("all-pairs", title="All pairs", regroups=True)
def all_pairs(updates: Matrix) -> Coefficients:
    """Replace the updates by the means of all pairs of them."""
    n = len(updates)
    pairs = np.array([*combinations(range(n), 2)] or [(0, 0)])
    coefficients = np.zeros((len(pairs), n))
    np.add.at(coefficients, (np.arange(len(pairs))[:, None], pairs), 0.5)
    return coefficients
