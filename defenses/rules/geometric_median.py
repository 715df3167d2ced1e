"""Geometric median. Chen et al., Distributed statistical machine learning in adversarial settings, POMACS 2017."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, rule, weighted_mean

Doubles = npt.NDArray[np.float64]

STEPS = 200
"""Most steps towards the median; ten are many, unless updates are nearly on a line."""

EPSILON = np.finfo(np.float64).eps
"""Rounding error of an inner product, relative to the lengths of the rows."""

PARTS = 0.5 ** np.arange(20)
"""Parts of a step of Newton's method that are tried."""

ROUNDING = 1e-7
"""Distance relative to an update's length, or length of a sum of unit vectors relative to n, that may be rounding."""

LEAST_FALL = 1e-9
"""Relative fall of the sum of distances in a step below which the median is reached, where the gradient is rounding."""


@rule("geometric-median", title="Geometric median", tolerates="f < n/2")
def geometric_median(updates: Matrix, *, products: Doubles) -> tuple[Vector, Doubles]:
    r"""Find the point with the least sum of distances to all updates.

    $$ w = \arg\min_z \sum_k \lVert z - x_k \rVert $$

    This is the median itself, while libraries take some steps towards it (see `rfa`). Where several points are medians,
    which takes updates on a line, it is one of the updates.
    """
    weights = median_weights(products)
    return weighted_mean(updates, weights), weights


def median_weights(products: Doubles) -> Doubles:
    """Return the weights by which the mean of rows is their geometric median, given their inner products.

    Newton's method, with steps of Weiszfeld's algorithm where it does not come nearer. Points are means of the rows, by
    weights that add up to one, so that no step needs the rows themselves. A row may be the median itself, where the sum
    of distances has no derivative: the nearest one is tried at every point (Vardi and Zhang, 2000).
    """
    n, lengths = len(products), np.sqrt(np.maximum(products.diagonal(), 0))
    # From the row that is nearest to half of the others: rows far away do not affect it.
    spread = products.diagonal()[:, None] + products.diagonal()[None, :] - 2 * products
    weights = np.eye(n)[np.median(spread, axis=1).argmin()]
    tried, total = set(), np.inf
    for _ in range(STEPS):
        distances, cosines = directions(products, weights)
        row = int(distances.argmin())
        is_there = distances[row] <= ROUNDING * lengths[row]
        if is_there or row not in tried:
            tried.add(row)
            beside, optimal = _leave_row(products, row, lengths)
            if optimal:
                return beside
        if is_there:
            weights = beside
            continue
        ratios = lengths / distances
        rounding = (ROUNDING * n) ** 2 + EPSILON * (ratios.sum() ** 2 - (ratios**2).sum())
        # Among rows nearly on a line the gradient may be as small as rounding while the sum still falls.
        if cosines.sum() <= rounding and distances.sum() > (1 - LEAST_FALL) * total:
            break
        total = distances.sum()
        weights = _step(products, weights, distances, cosines)
    return _weiszfeld_step(distances, distances > 0)


def directions(products: Doubles, weights: Doubles) -> tuple[Doubles, Doubles]:
    """Return the distances of rows from their weighted mean, and the cosines between their directions from there."""
    # Relative to the row nearest to it, since differences of large products would lose the digits of a small distance.
    origin = (products.diagonal() - 2 * products @ weights).argmin()
    row = products[origin]
    moved = products - row[:, None] - row[None, :] + row[origin]
    point = moved @ weights
    inner = moved - point[:, None] - point[None, :] + weights @ point
    distances = np.sqrt(np.maximum(inner.diagonal(), 0))
    lengths = np.outer(distances, distances)
    return distances, np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)


def _leave_row(products: Doubles, row: int, lengths: Doubles) -> tuple[Doubles, bool]:
    """Return the weights of a point on the way from a row to the median, and whether the row is the median."""
    n = len(products)
    distances, cosines = directions(products, np.eye(n)[row])
    same = distances <= ROUNDING * lengths
    same[row] = True
    pull = np.sqrt(max(cosines[np.ix_(~same, ~same)].sum(), 0.0))
    if pull <= same.sum() + ROUNDING * n:
        return same / same.sum(), True
    return (1 - same.sum() / pull) * _weiszfeld_step(distances, ~same) + same / pull, False


def _step(products: Doubles, weights: Doubles, distances: Doubles, cosines: Doubles) -> Doubles:
    """Return weights nearer to the median's: a step of Newton's method or a part of it, or one of Weiszfeld's."""
    total = (1 / distances).sum()
    try:
        # The inverse of the Hessian, by the formula of Woodbury, in terms of the unit vectors.
        newton = (1 + np.linalg.solve(np.diag(total * distances) - cosines, cosines.sum(1))) / (distances * total)
    except np.linalg.LinAlgError:
        return _weiszfeld_step(distances, distances > 0)
    for part in PARTS:
        moved: Doubles = weights + part * (newton - newton.sum() * weights)
        lengths, angles = directions(products, moved)
        # Near the median sums of distances are equal but for rounding; the squared length of the gradient still falls.
        if lengths.sum() < distances.sum() or angles.sum() <= (1 - part / 2) * cosines.sum():
            return moved
    return _weiszfeld_step(distances, distances > 0)


def _weiszfeld_step(distances: Doubles, rows: npt.NDArray[np.bool_]) -> Doubles:
    """Return weights of some rows in inverse proportion to their distances."""
    pulls = np.divide(1, distances, out=np.zeros_like(distances), where=rows)
    weights: Doubles = pulls / pulls.sum()
    return weights
