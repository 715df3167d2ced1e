"""Arithmetic on rows that several rules share."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, View, over_sorted_columns, weighted_mean


def clipping_factors(norms: npt.NDArray[np.float64], bound: float) -> npt.NDArray[np.float64]:
    """Return the factor of each row that leaves no norm above the bound."""
    factors: npt.NDArray[np.float64] = np.divide(bound, norms, out=np.ones_like(norms), where=norms > bound)
    return factors


def scaled_mean(updates: Matrix, factors: npt.NDArray[np.float64], divisor: float) -> Vector:
    """Return the sum of the rows, each multiplied by its factor, divided by a number such as that of the rows."""
    if not factors.any():
        return np.zeros(updates.shape[1], updates.dtype)
    return weighted_mean(updates, factors) * float(factors.sum() / divisor)


def distances_from(centre: npt.NDArray[np.float64], rows: Matrix) -> npt.NDArray[np.float64]:
    """Return the Euclidean distance of every row from the centre, in double precision."""
    return np.array([np.linalg.norm(row - centre) for row in rows], np.float64)


def sums_of_signs(updates: Matrix) -> Vector:
    """Return the number of positive values minus that of negative ones, for every column."""
    # With all ranks named, columns are not sorted.
    return over_sorted_columns(updates, lambda block: np.sign(block).sum(0), slice(0, len(updates)))


def weights_by_sender(view: View, weights: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the weight of each row by its sender, for the round's history; empty where senders are not known."""
    if view.participants is None:
        return {}
    return {str(who): float(weight) for who, weight in zip(view.participants, weights, strict=True)}
