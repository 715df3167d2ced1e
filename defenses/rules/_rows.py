"""Arithmetic on rows that several rules share."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, View, over_columns, weighted_mean


def scaled_mean(updates: Matrix, factors: npt.NDArray[np.float64], divisor: float) -> Vector:
    """Return the sum of the rows, each multiplied by its factor, divided by a number such as that of the rows."""
    if not factors.any():
        return np.zeros(updates.shape[1], updates.dtype)
    return weighted_mean(updates, factors) * float(factors.sum() / divisor)


def sums_of_signs(updates: Matrix) -> Vector:
    """Return the number of positive values minus that of negative ones, for every column."""
    return over_columns(updates, lambda block: np.sign(block).sum(0))


def weights_by_sender(view: View, weights: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the weight of each row by its sender, for the round's history; empty where senders are not known."""
    if view.participants is None:
        return {}
    return {str(who): float(weight) for who, weight in zip(view.participants, weights, strict=True)}
