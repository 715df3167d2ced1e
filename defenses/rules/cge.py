"""CGE. Gupta et al., Byzantine fault-tolerant machine learning using comparative gradient elimination, DSN-W 2021."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, rule, weighted_mean


@rule("cge", title="CGE", tolerates="f < n/3", defined="f < n/2")
def cge(updates: Matrix, f: int, *, norms: npt.NDArray[np.float64]) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the n - f updates with the smallest norms.

    $$ w = \frac{1}{n-f} \sum_{j=1}^{n-f} x_{(j)}, \qquad
       \lVert x_{(1)} \rVert \le \dots \le \lVert x_{(n)} \rVert $$

    The paper adds these gradients up, with a step size to match; updates are averaged. Its guarantee needs an f/n
    below 1/3 or less, depending on how convex and how smooth the costs are. Equal norms are taken in the order of the
    updates.
    """
    weights = np.zeros(len(updates))
    weights[np.argsort(norms, kind="stable")[: len(updates) - f]] = 1
    return weighted_mean(updates, weights), weights
