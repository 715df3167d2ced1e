"""Coordinate-wise median. Yin et al., Byzantine-robust distributed learning, ICML 2018."""

from fflbench.plugin import Matrix, Vector, over_sorted_columns, rule


@rule("median", title="Median", tolerates="f < n/2", coordinatewise=True, sorts_columns=True)
def median(updates: Matrix) -> Vector:
    r"""Take the middle value of every coordinate, or the mean of the middle two when n is even.

    $$ w_i = \tfrac{1}{2} \left( x_{(\lfloor (n+1)/2 \rfloor), i} + x_{(\lceil (n+1)/2 \rceil), i} \right) $$
    """
    n = len(updates)
    middle = slice((n - 1) // 2, n // 2 + 1)
    # Halved before they are added, so that two huge values do not overflow.
    return over_sorted_columns(updates, lambda block: block[0] / 2 + block[-1] / 2, middle)
