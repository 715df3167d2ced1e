"""Geometric median. Chen et al., Distributed statistical machine learning in adversarial settings, POMACS 2017."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, rule, weighted_mean

Doubles = npt.NDArray[np.float64]

STEPS = 200
"""Most steps towards the median; ten are many, unless updates are nearly on a line."""

EPSILON = np.finfo(np.float64).eps
"""Rounding error of an inner product, relative to the lengths of the rows."""

DAMPING = 0.5 ** np.arange(6)
"""Parts of a step of Newton's method that are tried."""

ROUNDING = 1e-7
"""Distance relative to an update's length, or length of a sum of unit vectors relative to n, that may be rounding."""


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
    n, lengths = len(products), np.sqrt(products.diagonal())
    # From the row that is nearest to half of the others: rows far away have no say in that.
    spread = products.diagonal()[:, None] + products.diagonal()[None, :] - 2 * products
    weights = np.eye(n)[np.median(spread, axis=1).argmin()]
    distances, cosines = directions(products, weights)
    tried = set()
    for _ in range(STEPS):
        row = int(distances.argmin())
        is_there = distances[row] <= ROUNDING * lengths[row]
        if is_there or row not in tried:
            tried.add(row)
            beside, optimal = _leave_row(products, row, lengths)
            if optimal:
                return beside
        if is_there:
            weights = beside
            distances, cosines = directions(products, weights)
            continue
        pulls = 1 / distances
        slope = cosines.sum()
        ratios = lengths * pulls
        if slope <= (ROUNDING * n) ** 2 + EPSILON * (ratios.sum() ** 2 - (ratios**2).sum()):
            return pulls / pulls.sum()
        change = _newton_step(weights, distances, cosines)
        for factor in DAMPING:
            weights = weights + factor * change
            distances, cosines = directions(products, weights)
            if cosines.sum() <= (1 - factor / 2) * slope:
                break
            weights = weights - factor * change
        else:
            weights = pulls / pulls.sum()
            distances, cosines = directions(products, weights)
    return np.maximum(weights, 0)


def directions(products: Doubles, weights: Doubles) -> tuple[Doubles, Doubles]:
    """Return the distances of rows from their weighted mean, and the cosines between their directions from there."""
    # Relative to the row of the largest weight, since a point near a row would lose the digits of its distance.
    origin = weights.argmax()
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
    others = ~same
    pull = np.sqrt(max(cosines[np.ix_(others, others)].sum(), 0.0))
    if pull <= same.sum() + ROUNDING * n:
        return same / same.sum(), True
    towards = np.divide(1, distances, out=np.zeros(n), where=others)
    return (1 - same.sum() / pull) * towards / towards.sum() + same / pull, False


def _newton_step(weights: Doubles, distances: Doubles, cosines: Doubles) -> Doubles:
    """Return the change of the weights in a step of Newton's method; none where it has none."""
    total = (1 / distances).sum()
    # The inverse of the Hessian, by the formula of Woodbury, in terms of unit vectors.
    try:
        shares = (1 + np.linalg.solve(np.diag(total * distances) - cosines, cosines.sum(1))) / (distances * total)
    except np.linalg.LinAlgError:
        return np.zeros_like(weights)
    change: Doubles = shares - shares.sum() * weights
    return change
