"""Search for the strength of an attack, for those that simulate the defense."""

import math
from collections.abc import Callable

import numpy as np

from fflbench.plugin import Known, Matrix, Vector

from ._crafted_rows import Numbers, in_single_precision

NO_HARM = -np.inf
"""Objective where the server would keep its model."""


def line_search(
    objective: Callable[[float], float], calls: int, *, start: float, step: float, value: float | None = None
) -> float:
    """Return the best argument found from `start` upwards: steps double while it grows, then bisection around the best.

    `value` is the objective at the start, where it is known already. Below the start, bisection goes down to 0.
    """
    if value is None:
        value, calls = objective(start), calls - 1
    low, best, high = 0.0, start, np.inf
    while calls > 0 and high == np.inf:
        calls -= 1
        if (found := objective(best + step)) > value:
            low, best, value, step = best, best + step, found, 2 * step
        else:
            high = best + step
    for _ in range(calls):
        above = high - best >= best - low
        tried = (best + (high if above else low)) / 2
        # Of equal values the smaller argument is kept: rules that ignore all larger ones give them the same.
        if (found := objective(tried)) > value or (found == value < np.inf and not above):
            low, best, high, value = (best, tried, high, found) if above else (low, tried, best, found)
        elif above:
            high = tried
        else:
            low = tried
    return best


def farthest_copies(known: Known, mean: Numbers, row: Callable[[float], Numbers], evaluations: int) -> Matrix:
    """Return copies of the row, by its factor, that moves the aggregate farthest from the mean of honest updates."""
    parameters, rows = known.columns.parameters, known.updates.copy()

    def copies(factor: float) -> Matrix:
        crafted = in_single_precision(row(factor))
        if len(crafted) == rows.shape[1]:
            # Without buffers all rows are one.
            return np.broadcast_to(crafted, rows.shape)
        rows[:, parameters] = crafted
        return rows

    def distance(factor: float) -> float:
        aggregate = known.simulate(copies(factor))
        return NO_HARM if aggregate is None else euclidean_distance(aggregate[parameters], mean)

    return np.array(copies(line_search(distance, evaluations, start=0.0, step=FIRST_STEP)))


def euclidean_distance(vector: Vector, other: Numbers) -> float:
    """Return the distance in double precision, block by block: BLAS starts threads for longer vectors."""
    total = 0.0
    for start in range(0, len(vector), BLOCK):
        difference = vector[start : start + BLOCK] - other[start : start + BLOCK]
        total += float(difference @ difference)
    return math.sqrt(total)


FIRST_STEP = 10.0
"""First step of the factor in ByzFL's search."""
BLOCK = 8192
"""Values up to which OpenBLAS uses one thread, and which stay in the cache."""
