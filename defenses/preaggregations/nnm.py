"""NNM. Allouah et al., Fixing by mixing: a recipe for optimal Byzantine ML under heterogeneity, AISTATS 2023."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Coefficients, Matrix, preaggregation


@preaggregation("nnm", title="NNM", tolerates="f < n/2")
def nnm(updates: Matrix, f: int, *, distances: npt.NDArray[np.float64]) -> Coefficients:
    r"""Replace each update by the mean of the n - f updates nearest to it, itself included.

    $$ y_k = \frac{1}{n-f} \sum_{j \in N_k} x_j, \qquad |N_k| = n - f,\ k \in N_k $$

    Equal distances are taken in the order of the updates, itself first.
    """
    n = len(updates)
    ranked = distances.copy()
    np.fill_diagonal(ranked, -1)
    nearest = np.argsort(ranked, axis=1, kind="stable")[:, : n - f]
    coefficients = np.zeros((n, n))
    np.put_along_axis(coefficients, nearest, 1 / (n - f), axis=1)
    return coefficients
