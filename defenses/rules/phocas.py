"""Phocas. Xie et al., Phocas: dimensional Byzantine-resilient stochastic gradient descent, 2018 (arXiv 1805.09682)."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, over_sorted_columns, rule

from .meamed import in_double_precision, mean_of_nearest


@rule("phocas", title="Phocas", tolerates="f < n/2", coordinatewise=True, sorts_columns=True)
def phocas(updates: Matrix, f: int) -> Vector:
    r"""Average in every coordinate the n - f values that are nearest to its trimmed mean.

    $$ w_i = \frac{1}{n-f} \sum_{k \in N_i} x_{k,i}, \qquad |N_i| = n - f, \qquad
       |x_{k,i} - t_i| \le |x_{j,i} - t_i| \ \text{for}\ k \in N_i,\ j \notin N_i, \qquad
       t_i = \frac{1}{n-2f} \sum_{j=f+1}^{n-f} x_{(j),i} $$

    Of two values as near, the lower is taken.
    """
    n = len(updates)
    shares = np.full(n - 2 * f, 1 / (n - 2 * f))

    def average(block: Matrix) -> npt.NDArray[np.float64]:
        values = in_double_precision(block)
        return mean_of_nearest(values, shares @ values[f : n - f], n - f)

    return over_sorted_columns(updates, average)
