"""MeaMed, the mean around the median. Xie et al., Generalized Byzantine-tolerant SGD, 2018 (arXiv 1802.10116)."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, over_sorted_columns, rule

Doubles = npt.NDArray[np.float64]


@rule("meamed", title="MeaMed", tolerates="f < n/2", coordinatewise=True, sorts_columns=True)
def meamed(updates: Matrix, f: int) -> Vector:
    r"""Average in every coordinate the n - f values that are nearest to its median.

    $$ w_i = \frac{1}{n-f} \sum_{k \in N_i} x_{k,i}, \qquad |N_i| = n - f, \qquad
       |x_{k,i} - m_i| \le |x_{j,i} - m_i| \ \text{for}\ k \in N_i,\ j \notin N_i $$

    with $m_i$ the median, the mean of the middle two values when n is even. Of two values as near, the lower is taken.
    """
    n = len(updates)
    middle = slice((n - 1) // 2, n // 2 + 1)

    def average(block: Matrix) -> Doubles:
        values = in_double_precision(block)
        return mean_of_nearest(values, values[middle].mean(0), n - f)

    return over_sorted_columns(updates, average)


def in_double_precision(block: Matrix) -> Doubles:
    """Return a block of columns in double precision, in which differences of huge values do not overflow."""
    # Row by row in memory: the block comes column by column, as it was sorted.
    return block.astype(np.float64, order="C")


def mean_of_nearest(values: Doubles, centre: Doubles, count: int) -> Doubles:
    """Return the mean of the values of every sorted column that are nearest to its centre, the lower of two as near."""
    # Nearest values are neighbours in order: a window of which value j is left out where value j + count is nearer.
    window = values[:count].copy()
    for first in range(0, len(values) - count, count):
        higher = values[first + count : first + 2 * count]
        lower = values[first : first + len(higher)]
        np.copyto(window[: len(higher)], higher, where=centre - lower > higher - centre)
    mean: Doubles = np.full(count, 1 / count) @ window
    return mean
