"""Trimmed mean. Yin et al., Byzantine-robust distributed learning, ICML 2018."""

import numpy as np

from fflbench.plugin import Matrix, Vector, over_sorted_columns, rule


@rule("trimmed-mean", title="Trimmed mean", tolerates="f < n/2", coordinatewise=True, sorts_columns=True, version=2)
def trimmed_mean(updates: Matrix, f: int) -> Vector:
    r"""Average each coordinate after dropping its f largest and f smallest values.

    $$ w_i = \frac{1}{n-2f} \sum_{j=f+1}^{n-f} x_{(j),i} $$
    """
    kept = slice(f, len(updates) - f)
    shares = np.full(len(updates) - 2 * f, 1 / (len(updates) - 2 * f))
    # In double precision, where huge values do not overflow; a product is twice as fast as `mean` there.
    return over_sorted_columns(updates, lambda block: shares @ block.astype(np.float64), kept)
