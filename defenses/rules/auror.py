"""Auror. Shen et al., Auror: defending against poisoning attacks in collaborative deep learning, ACSAC 2016."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Columns, Matrix, Vector, over_sorted_columns, rule, weighted_mean

BLOCK = 1 << 20
"""Values that are compared at a time."""


@rule("auror", title="Auror", tolerates="f < n/2")
def auror(
    updates: Matrix,
    alpha: Annotated[float, Ge(0), "distance of a parameter's two centres from which it is indicative"] = 0.02,
    *,
    columns: Columns,
) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the updates that are in the smaller of two clusters for at most half of the indicative parameters.

    $$ \text{indicative: } |c_{1,i} - c_{2,i}| > \alpha, \qquad
       \text{kept: } |\{i \text{ indicative} : x_{k,i} \text{ in the smaller cluster of } i\}|
       \le \tfrac{1}{2} |\{i \text{ indicative}\}| $$

    with $c_{1,i}$ and $c_{2,i}$ the centres of the best two clusters of all values of parameter i (exact 2-means).
    Clusters of equal size make nobody suspicious. Every round is judged by itself; the paper finds the indicative
    parameters in the first rounds, and sets $\alpha$ for each task: it must fit the size of honest updates (FLPoison's
    is 0.002 by default).
    """
    parameters = updates[:, columns.parameters]
    n, d = parameters.shape
    ends = over_sorted_columns(parameters, lambda block: ends_of_lower_clusters(block, alpha))
    suspected, indicative, width = np.zeros(n, np.int64), 0, max(1, BLOCK // n)
    for start in range(0, d, width):
        # No value is below an end that is NaN.
        lower = parameters[:, start : start + width] <= ends[start : start + width]
        sizes = np.count_nonzero(lower, axis=0)
        indicative += int(np.count_nonzero((sizes > 0) & (sizes < n)))
        suspected += np.count_nonzero(np.where(2 * sizes < n, lower, ~lower & (2 * sizes > n)), axis=1)
    kept = 2 * suspected <= indicative
    return weighted_mean(updates, kept), kept.astype(np.float64)


def ends_of_lower_clusters(ordered: Matrix, alpha: float) -> npt.NDArray[np.float64]:
    """Return the largest value of each column's lower cluster; NaN where the centres are within alpha.

    Of sorted values, the best two clusters are a beginning and the rest, and prefix sums give the gain of each split.
    """
    n = len(ordered)
    if n == 1:
        return np.full(ordered.shape[1], np.nan)
    doubled = ordered.astype(np.float64)
    doubled -= doubled.mean(0)
    sums, sizes = doubled.cumsum(0)[:-1], np.arange(1, n)[:, None]
    best = (sums**2 / (sizes * (n - sizes))).argmax(0)[None]
    sizes = best + 1
    distances = -np.take_along_axis(sums, best, 0) * n / (sizes * (n - sizes))
    ends: npt.NDArray[np.float64] = np.where(distances > alpha, np.take_along_axis(ordered, best, 0), np.nan)[0]
    return ends
