"""CAF. Allouah et al., Towards trustworthy federated learning with untrusted participants, ICML 2025."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, rule, weighted_mean


@rule("caf", title="CAF", tolerates="f < n/2")
def caf(updates: Matrix, f: int, *, distances: npt.NDArray[np.float64]) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Reduce weights of updates that deviate along the direction of most variance, until their sum has fallen by 2f.

    $$ c_k \leftarrow c_k \left( 1 - \frac{\tau_k}{\max_{j: c_j > 0} \tau_j} \right), \qquad
       \tau_k = \langle x_k - \mu_c, v \rangle^2, \qquad \mu_c = \frac{\sum_k c_k x_k}{\sum_k c_k}
       \qquad \text{while}\ \sum_k c_k > n - 2f $$

    from $c_k = 1$ on, with $v$ the top eigenvector of
    $\Sigma_c = \sum_k c_k (x_k - \mu_c)(x_k - \mu_c)^\top / \sum_k c_k$. The aggregate is the $\mu_c$ whose $\Sigma_c$
    has the least top eigenvalue. Updates without weight do not count in the maximum, or one huge update would stop all
    progress. Eigenvectors are exact, as the single step of the power method that a library takes is not.
    """
    n = len(updates)
    weights = chosen = np.ones(n)
    least = np.inf
    while weights.sum() > n - 2 * f:
        shares = weights / weights.sum()
        means = distances @ shares
        # Inner products of updates minus their weighted mean.
        products = (means[:, None] + means[None, :] - distances - shares @ means) / 2
        roots = np.sqrt(shares)
        # It has the eigenvalues of the covariance.
        eigenvalues, eigenvectors = np.linalg.eigh(roots[:, None] * products * roots[None, :])
        if eigenvalues[-1] < least:
            chosen, least = weights, eigenvalues[-1]
        deviations = np.where(weights > 0, np.abs(products @ (roots * eigenvectors[:, -1])), 0)
        if not deviations.any():
            break
        weights = weights * (1 - (deviations / deviations.max()) ** 2)
    return weighted_mean(updates, chosen), chosen
