"""RFA. Pillutla et al., Robust aggregation for federated learning, IEEE Transactions on Signal Processing 2022."""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from fflbench.plugin import Matrix, Vector, rule, weighted_mean

from .geometric_median import Doubles, directions


@rule("rfa", title="RFA", tolerates="f < n/2")
def rfa(
    updates: Matrix,
    iterations: Annotated[int, Ge(1), "steps of the smoothed Weiszfeld algorithm"] = 3,
    nu: Annotated[float, Gt(0), "smoothing: distances below it count as it"] = 1e-6,
    *,
    weights: npt.NDArray[Any],
    products: Doubles,
) -> tuple[Vector, Doubles]:
    r"""Approach the geometric median, weighted by numbers of examples, by a few steps from the mean.

    $$ z^{(0)} = \sum_k \alpha_k x_k, \qquad
       z^{(t+1)} = \frac{\sum_k \beta_k x_k}{\sum_k \beta_k}, \qquad
       \beta_k = \frac{\alpha_k}{\max(\nu, \lVert z^{(t)} - x_k \rVert)}, \qquad
       \alpha_k = \frac{d_k}{\sum_j d_j} $$

    The defaults are the paper's; its first code has $\nu = 10^{-5}$ and at most 4 steps, fewer where the sum of
    distances hardly falls. Other libraries start from zero or take another $\nu$. `geometric-median` is exact.
    """
    alpha = np.asarray(weights, np.float64) / np.sum(weights, dtype=np.float64)
    shares = alpha
    for _ in range(iterations):
        distances, _ = directions(products, shares)
        shares = alpha / np.maximum(distances, nu)
        shares /= shares.sum()
    return weighted_mean(updates, shares), shares
