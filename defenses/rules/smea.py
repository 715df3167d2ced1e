"""SMEA. Allouah et al., On the privacy-robustness-utility trilemma in distributed learning, ICML 2023."""

import math
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, NoAnswerError, Vector, rule, weighted_mean

MOST_WORK = 1_000_000_000
"""Number of subsets times (n - f)^3, the work of their eigenvalues, above which there is no answer: some seconds."""

TOGETHER = 1 << 22
"""Most values of the matrices whose eigenvalues are computed at a time."""


@rule("smea", title="SMEA", tolerates="f < n/2")
def smea(updates: Matrix, f: int, *, distances: npt.NDArray[np.float64]) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the n - f updates whose covariance has the least top eigenvalue.

    $$ w = \frac{1}{n-f} \sum_{k \in S} x_k, \qquad S = \arg\min_{|S| = n - f} \lambda_{\max} \left( \frac{1}{n-f}
       \sum_{k \in S} (x_k - \bar{x}_S)(x_k - \bar{x}_S)^\top \right) $$

    Every subset is tried, with exact eigenvalues, and no answer is given where there are too many. Of equal eigenvalues
    the one of the first updates is taken.
    """
    n = len(updates)
    size, count = n - f, math.comb(n, f)
    if count * size**3 > MOST_WORK:
        raise NoAnswerError(
            f"SMEA tries every subset of n - f updates, and for n = {n} and f = {f} there are {count:,}; times "
            f"(n - f)^3, the work of their eigenvalues, that is more than {MOST_WORK:,}"
        )
    subsets, least = combinations(range(n), size), np.inf
    while len(some := np.array(list(islice(subsets, max(1, TOGETHER // size**2))))):
        eigenvalues = top_eigenvalues(distances[some[:, :, None], some[:, None, :]])
        if eigenvalues.min() < least:
            least, chosen = eigenvalues.min(), some[eigenvalues.argmin()]
    weights = np.zeros(n)
    weights[chosen] = 1
    return weighted_mean(updates, weights), weights


def top_eigenvalues(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return for each matrix of squared distances the top eigenvalue of the scatter matrix of its points."""
    means = distances.mean(2, keepdims=True)
    # Inner products of the points minus their mean, which have the same eigenvalues.
    products = (means + means.transpose(0, 2, 1) - distances - means.mean(1, keepdims=True)) / 2
    largest: npt.NDArray[np.float64] = np.linalg.eigvalsh(products)[:, -1]
    return largest
