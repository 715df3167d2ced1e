"""Bulyan. El Mhamdi et al., The hidden vulnerability of distributed learning in Byzantium, ICML 2018."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, over_sorted_columns, rule

from .meamed import in_double_precision, mean_of_nearest
from .multi_krum import Distances, krum_scores

ROUNDING = 1e-9
"""Relative difference of scores that may be rounding."""

STRETCH = 1 << 18
"""Columns whose selected rows are copied at a time, since all of them might not fit into memory."""


@rule("bulyan", title="Bulyan", tolerates="f <= (n - 3)/4", defined="f < n/4")
def bulyan(updates: Matrix, f: int, *, distances: Distances) -> Vector:
    r"""Select n - 2f updates by Krum, one at a time, and average in every coordinate those nearest to their median.

    $$ w_i = \frac{1}{\beta} \sum_{k \in N_i} x_{k,i}, \qquad N_i \subset S, \qquad
       |S| = n - 2f, \qquad |N_i| = \beta = n - 4f $$

    with $S$ the updates that Krum selects, each from those that the earlier selections left, and $N_i$ those nearest to
    the median of $S$. Krum counts at least one neighbour, where the last selections would have none; of equal scores it
    takes the one nearer to all that are left. The median is one of the values, the lower of the middle two where $|S|$
    is even (of the authors' own implementations, one takes the lower and one the upper). Of two values as near to it
    the lower is taken. Libraries differ in all of these.
    """
    selected = select_by_krum(distances, f)
    middle, count = (len(selected) - 1) // 2, len(updates) - 4 * f

    def average(block: Matrix) -> npt.NDArray[np.float64]:
        values = in_double_precision(block)
        return mean_of_nearest(values, values[middle], count)

    result: Vector = np.empty(updates.shape[1], updates.dtype)
    for start in range(0, len(result), STRETCH):
        stretch = slice(start, start + STRETCH)
        result[stretch] = over_sorted_columns(updates[selected, stretch], average)
    return result


def select_by_krum(distances: Distances, f: int) -> npt.NDArray[np.int64]:
    """Return n - 2f rows that Krum selects, each among those that are left."""
    left, selected = np.arange(len(distances)), []
    for _ in range(len(distances) - 2 * f):
        among = distances[np.ix_(left, left)]
        scores = krum_scores(among, f)
        # With a single neighbour the nearest two always have the same score, up to rounding.
        place = np.where(scores <= scores.min() * (1 + ROUNDING), among.sum(1), np.inf).argmin()
        selected.append(left[place])
        left = np.delete(left, place)
    return np.array(selected)
