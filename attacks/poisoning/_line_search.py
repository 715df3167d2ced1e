"""Search for the strength of an attack, for those that simulate the defense."""

from collections.abc import Callable

import numpy as np

from fflbench.plugin import Known, Matrix

from ._crafted_rows import Numbers, in_single_precision, mean_of_rows

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


def farthest_copies(known: Known, honest: Matrix, row: Callable[[float], Numbers], evaluations: int) -> Matrix:
    """Return copies of the row, by its factor, that moves the aggregate farthest from the mean of honest updates."""
    parameters, mean = known.columns.parameters, mean_of_rows(honest)
    rows, difference = known.updates.copy(), np.empty_like(mean)

    def copies(factor: float) -> Matrix:
        crafted = in_single_precision(row(factor))
        if len(crafted) == rows.shape[1]:
            # Without buffers all rows are one.
            return np.broadcast_to(crafted, rows.shape)
        rows[:, parameters] = crafted
        return rows

    def distance(factor: float) -> float:
        aggregate = known.simulate(copies(factor))
        if aggregate is None:
            return NO_HARM
        return float(np.linalg.norm(np.subtract(aggregate[parameters], mean, out=difference)))

    return np.array(copies(line_search(distance, evaluations, start=0.0, step=FIRST_STEP)))


FIRST_STEP = 10.0
"""First step of the factor in ByzFL's search."""
