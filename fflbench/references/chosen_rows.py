"""Definitions of CGE, MoNNA, MDA and SMEA, which average n - f rows of their choice."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from fflbench.references.coordinatewise import mean
from fflbench.references.krum import TIED, lowest
from fflbench.references.reference import Answer, Definition, Reference, Rows, UndefinedError, Variant

Spread = Callable[[Rows], float]
"""Measure of how far rows are from each other."""


def _mean_of_lowest(rows: Rows, scores: Sequence[float], count: int) -> Iterator[Answer]:
    for chosen in lowest(scores, count):
        yield mean([rows[k] for k in chosen])


# Smallest norms


def cge(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of the n - f rows with the smallest norms."""
    return _mean_of_lowest(rows, [math.hypot(*row) for row in rows], len(rows) - f)


def _without_smallest(rows: Rows, f: int) -> list[Answer]:
    return [mean(sorted(rows, key=lambda row: math.hypot(*row))[f : len(rows) - f])]


def _sum_of_smallest(rows: Rows, f: int) -> Iterator[Answer]:
    for each in cge(rows, f):
        yield [value * (len(rows) - f) for value in each]


# Nearest to a trusted row


def monna(rows: Rows, f: int, trusted: int = 0) -> Iterator[Answer]:
    """Yield the mean of the trusted row and the n - f - 1 rows nearest to it."""
    return _nearest_to(rows, trusted, len(rows) - f)


def _nearest_to(rows: Rows, trusted: int, count: int, *, itself: bool = True) -> Iterator[Answer]:
    if not 0 <= trusted < len(rows):
        raise UndefinedError("trusted must be the number of a row")
    others = [row for k, row in enumerate(rows) if k != trusted]
    own = [rows[trusted]] if itself else []
    wanted = min(count - len(own), len(others))
    for chosen in lowest([math.dist(rows[trusted], row) for row in others], wanted) if wanted else [()]:
        yield mean([*own, *(others[k] for k in chosen)])


# Subsets of least spread


def mda(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of the n - f rows with the smallest diameter, the largest of all distances between them."""
    return _least(rows, f, _diameter)


def smea(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of the n - f rows whose covariance has the least top eigenvalue."""
    return _least(rows, f, lambda chosen: float(singular_values(chosen)[0]) ** 2)


def _least(rows: Rows, f: int, spread: Spread) -> Iterator[Answer]:
    subsets = [[rows[k] for k in chosen] for chosen in combinations(range(len(rows)), len(rows) - f)]
    spreads = [spread(chosen) for chosen in subsets]
    edge = min(spreads)
    for chosen, value in zip(subsets, spreads, strict=True):
        if value - edge <= TIED * edge:
            yield mean(chosen)


def _diameter(rows: Rows) -> float:
    return max((math.dist(one, other) for one, other in combinations(rows, 2)), default=0.0)


def _sum_of_distances(rows: Rows) -> float:
    return math.fsum(math.dist(one, other) for one, other in combinations(rows, 2))


def _total_variance(rows: Rows) -> float:
    return math.fsum(math.dist(row, centre) ** 2 for centre in [mean(rows)] for row in rows)


def singular_values(rows: Rows) -> npt.NDArray[np.float64]:
    """Return the singular values of the rows minus their mean: their squares are the eigenvalues of the scatter."""
    matrix = np.array(rows, np.float64)
    return np.linalg.svd(matrix - np.array(mean(rows)), compute_uv=False)


def _ball(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of a row and its n - f - 1 nearest, for the row whose farthest of these is nearest."""
    count = len(rows) - f
    radii = [sorted(math.dist(row, other) for other in rows)[count - 1] for row in rows]
    for (centre,) in lowest(radii, 1):
        yield from _nearest_to(rows, centre, count)


def _smallest(spread: Spread) -> Definition:
    return lambda rows, f: _least(rows, f, spread)


def _largest_f(n: int) -> int:
    return (n - 1) // 2


def _few(n: int) -> int:
    """Return the largest f to compare with where every subset is tried."""
    return min((n - 1) // 2, 2)


CGE = Reference(
    "cge",
    "Gupta et al., Byzantine fault-tolerant machine learning using comparative gradient elimination, DSN-W 2021, but "
    "averaged",
    cge,
    (
        Variant(
            ("rows averaged: yours looks like the f smallest norms are dropped too, the paper drops the f largest",),
            _without_smallest,
        ),
        Variant(
            ("rows averaged: yours looks like n - 2f, the paper's are n - f",),
            lambda rows, f: _mean_of_lowest(rows, [math.hypot(*row) for row in rows], len(rows) - 2 * f),
        ),
        Variant(
            ("rows averaged: yours looks like the f largest norms, the paper's are the n - f smallest",),
            lambda rows, f: _mean_of_lowest(rows, [-math.hypot(*row) for row in rows], max(1, f)),
        ),
    ),
    _largest_f,
    accepted=(Variant(("rows are added up, as in the paper; fflbench divides by their number",), _sum_of_smallest),),
    fewest_rows=3,
)
MONNA = Reference(
    "monna",
    "Farhadkhani et al., Robust collaborative learning with linear gradient overhead, ICML 2023, with a trusted row",
    monna,
    (
        Variant(
            ("rows averaged: yours looks like n - 2f, the n - f nearest are averaged where all n rows have arrived",),
            lambda rows, f, trusted=0: _nearest_to(rows, trusted, len(rows) - 2 * f),
        ),
        Variant(
            ("rows averaged: yours looks like n - f others, the paper's are n - f with the trusted one among them",),
            lambda rows, f, trusted=0: _nearest_to(rows, trusted, len(rows) - f, itself=False),
        ),
    ),
    _largest_f,
    parameters={"trusted": lambda n: n % 3},
    fewest_rows=3,
)
MDA = Reference(
    "mda",
    "El Mhamdi et al., Genuinely distributed Byzantine machine learning, PODC 2020",
    mda,
    (
        Variant(
            ("subset: yours looks like the least sum of distances, the paper's has the least diameter",),
            _smallest(_sum_of_distances),
        ),
        Variant(
            ("subset: yours looks like the least variance, the paper's has the least diameter",),
            _smallest(_total_variance),
        ),
        Variant(
            ("subset: yours looks like a row and its n - f - 1 nearest, the paper's is any with the least diameter",),
            _ball,
        ),
    ),
    _few,
    fewest_rows=4,
    most_rows=9,
)
SMEA = Reference(
    "smea",
    "Allouah et al., On the privacy-robustness-utility trilemma in distributed learning, ICML 2023",
    smea,
    (
        Variant(
            ("subset: yours looks like the least variance in all, the paper's has the least in its widest direction",),
            _smallest(_total_variance),
        ),
        Variant(
            ("subset: yours looks like the least diameter (MDA), the paper's has the least top eigenvalue",),
            mda,
        ),
    ),
    _few,
    fewest_rows=4,
    most_rows=9,
)
