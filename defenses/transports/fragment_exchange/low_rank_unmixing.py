"""Recovery of the mask: which partner each entry of a linear layer came from, by the layer's low rank.

The layer's weights and bias together, a matrix M = D A with a column of D and a row of A for each example, have rank b
at most for b examples. Of two partners' mixed matrices only the sum M1 + M2 is known, but its column space is that of
both together. Each column of M1 is one of 2^p ways to choose between two mixed columns, and generically the only one,
beside its complement, that lies in that space: a few rows are tried in all ways, and decide the others. Which of the
two choices belong together across columns shows in the shape interaction matrix (Costeira and Kanade, A multibody
factorization method for independently moving objects, IJCV 1998): its entries between independent subspaces are zero.
"""

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]
Owners = npt.NDArray[np.bool_]

SPARE = 4
"""Rows tried beyond the rank: each makes a wrong choice less likely to fit by accident."""
MOST = 16
"""Largest number of rows for which all choices are tried."""


def infer_owners_by_rank(one: Real, other: Real, rank: int) -> Owners | None:
    """Return where `one` holds the first partner's entries, in either order; `rank` is that of both partners' sum.

    None where the rank is no constraint, or there are too many choices to try.
    """
    if one.shape[0] < one.shape[1]:
        owners = infer_owners_by_rank(one.T, other.T, rank)
        return None if owners is None else owners.T
    length, count = one.shape
    tried = min(rank + SPARE, length)
    if rank > count or rank >= tried or tried > MOST:
        return None
    chosen = _choose_entries_by_column(one, other, rank, tried)
    first, second = np.where(chosen, one, other), np.where(chosen, other, one)
    return chosen ^ _columns_with_swapped_partners(first, second, rank)


def _choose_entries_by_column(one: Real, other: Real, rank: int, tried: int) -> Owners:
    """Return for every column the entries of one partner; which partner differs between columns."""
    from scipy.linalg import qr

    space = np.linalg.svd(one + other, full_matrices=False)[0][:, :rank]
    # Rows that span the column space well.
    rows = qr(space.T, mode="economic", pivoting=True)[2][:tried]
    basis = np.linalg.qr(space[rows])[0]
    outside = np.eye(tried) - basis @ basis.T
    # The complement fits as well, so the first row need not be varied.
    ways = (np.arange(2 ** (tried - 1))[:, None] >> np.arange(tried) & 1).astype(np.float64)
    chosen = np.empty(one.shape, bool)
    for column in range(one.shape[1]):
        a, b = one[rows, column], other[rows, column]
        beyond = (outside @ a + (ways * (b - a)) @ outside) ** 2
        swapped = ways[beyond.sum(1).argmin()].astype(bool)
        whole = space @ np.linalg.lstsq(space[rows], np.where(swapped, b, a), rcond=None)[0]
        chosen[:, column] = np.abs(one[:, column] - whole) <= np.abs(other[:, column] - whole)
        chosen[rows, column] = ~swapped
    return chosen


def _columns_with_swapped_partners(first: Real, second: Real, rank: int) -> Owners:
    """Return the columns in which the two partners are exchanged relative to the others."""
    both = np.concatenate([first, second], axis=1)
    right = np.linalg.svd(both, full_matrices=False)[2][:rank]
    related = (right.T @ right) ** 2
    half = first.shape[1]
    same = related[:half, :half] + related[half:, half:] - related[:half, half:] - related[half:, :half]
    leading = np.linalg.eigh(same)[1][:, -1]
    exchanged: Owners = leading < 0
    return exchanged
