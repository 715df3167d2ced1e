"""Definitions of rules that drop outliers: DnC, the three-sigma rule and Auror."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from statistics import fmean, stdev

import numpy as np

from fflbench.references.coordinatewise import mean
from fflbench.references.krum import krum_scores, lowest
from fflbench.references.reference import Answer, Reference, Rows, UndefinedError, Variant

NEAR = 1e-6
"""Relative difference below which rounding may decide."""


# DnC


def dnc(rows: Rows, f: int, c: float = 1.0) -> Iterator[Answer]:
    """Yield the mean of the n - c f rows with the lowest outlier scores (algorithm 2, all coordinates at once)."""
    if not c > 0 or int(len(rows) - c * f) < 1:
        raise UndefinedError("c must be above 0, and c f below the number of rows")
    centre = mean(rows)
    return _without_outliers(rows, [[a - b for a, b in zip(row, centre, strict=True)] for row in rows], f, c)


def _without_outliers(rows: Rows, projected: Rows, f: int, c: float) -> Iterator[Answer]:
    scores = outlier_scores(projected)
    for chosen in lowest(scores, int(len(rows) - c * f)) if scores else []:
        yield mean([rows[k] for k in chosen])


def outlier_scores(rows: Rows) -> list[float]:
    """Return squared projections on the top right singular vector; none where there are several such vectors."""
    _, singular, right = np.linalg.svd(np.array(rows, np.float64))
    if len(singular) > 1 and 0 < singular[0] <= singular[1] * (1 + NEAR):
        return []
    return [math.fsum(a * float(b) for a, b in zip(row, right[0], strict=True)) ** 2 for row in rows]


# Three sigma


def three_sigma(rows: Rows, bound: float = 1.0, centre: Sequence[float] | None = None) -> Iterator[Answer]:
    """Yield the mean of the rows whose distance from the centre is usual; in a first round, the centre is Krum's."""
    if bound < 0:
        raise UndefinedError("bound must be at least 0")
    half = max(1, math.ceil(len(rows) / 2) - 1)
    centres: Iterable[Sequence[float]] = (
        [centre]
        if centre is not None
        else (mean([rows[k] for k in chosen]) for chosen in lowest(krum_scores(rows, half), half))
    )
    for each in centres:
        for kept in usual([math.dist(row, each) for row in rows], bound):
            yield mean([rows[k] for k in kept])


def usual(scores: Sequence[float], bound: float) -> list[list[int]]:
    """Return the rows that are kept by their scores: two answers where rounding may decide."""
    limit = fmean(scores) + bound * (stdev(scores) if len(scores) > 1 else 0.0)
    choices = [[k for k, score in enumerate(scores) if score <= limit * (1 + sign * NEAR)] for sign in (1, -1)]
    return [kept for place, kept in enumerate(choices) if kept and kept not in choices[:place]]


def _from_the_mean(rows: Rows, bound: float = 1.0) -> Iterator[Answer]:
    return three_sigma(rows, bound, mean(rows))


# Auror


def auror(rows: Rows, alpha: float = 0.02) -> Iterator[Answer]:
    """Yield the mean of the rows that are in the minority for at most half of the indicative columns (section 4)."""
    if alpha < 0:
        raise UndefinedError("alpha must be at least 0")
    for minorities in product(*([*_minorities(column, alpha)] for column in zip(*rows, strict=True))):
        indicative = [each for each in minorities if each is not None]
        suspected = [sum(k in each for each in indicative) for k in range(len(rows))]
        yield mean([row for row, count in zip(rows, suspected, strict=True) if 2 * count <= len(indicative)])


def _minorities(column: Sequence[float], alpha: float) -> Iterator[frozenset[int] | None]:
    """Yield the smaller cluster of a column; None if it is not indicative; nobody if clusters are equal."""
    n = len(column)
    found = []
    for threshold in sorted(set(column))[:-1]:
        low = frozenset(k for k in range(n) if column[k] <= threshold)
        clusters = low, frozenset(range(n)) - low
        centres = [fmean(column[k] for k in members) for members in clusters]
        error = math.fsum(
            (column[k] - centre) ** 2 for members, centre in zip(clusters, centres, strict=True) for k in members
        )
        smaller: frozenset[int] = min(clusters, key=len) if 2 * len(low) != n else frozenset()
        found.append((error, smaller if abs(centres[0] - centres[1]) > alpha else None))
    if not found:
        yield None
    total = math.fsum((value - fmean(column)) ** 2 for value in column)
    best = min((error for error, _ in found), default=0.0)
    yield from dict.fromkeys(smaller for error, smaller in found if error <= best + NEAR * total)


def _one_clustering(rows: Rows, alpha: float = 0.02) -> Iterator[Answer]:
    """Yield the mean of the larger of two clusters of rows, by their indicative columns together."""
    columns = [c for c in zip(*rows, strict=True) if next(_minorities(c, alpha)) is not None]
    points = list(zip(*columns, strict=True)) or [()] * len(rows)
    n = len(rows)
    splits = [[k for k in range(n) if code >> k & 1] for code in range(1, 2 ** (n - 1))]
    errors = [_error(points, low) + _error(points, [k for k in range(n) if k not in low]) for low in splits]
    for low, error in zip(splits, errors, strict=True):
        if error <= min(errors) * (1 + NEAR):
            high = [k for k in range(n) if k not in low]
            yield from (mean([rows[k] for k in each]) for each in (low, high) if 2 * len(each) >= n)


def _error(points: Rows, members: Sequence[int]) -> float:
    centre = mean([points[k] for k in members])
    return math.fsum(math.dist(points[k], centre) ** 2 for k in members)


def _largest_f(n: int) -> int:
    return (n - 1) // 2


DNC = Reference(
    "dnc",
    "Shejwalkar and Houmansadr, Manipulating the Byzantine, NDSS 2021, with all coordinates",
    dnc,
    (
        Variant(
            ("centring: yours looks like rows are projected as they are, the paper subtracts their mean first",),
            lambda rows, f, c=1.0: _without_outliers(rows, rows, f, c),
        ),
    ),
    _largest_f,
    parameters={"c": lambda n: (1.0, 0.5, 1.5)[n % 3]},
    fewest_rows=4,
)
THREE_SIGMA = Reference(
    "three-sigma",
    "Han et al., Kick bad guys out!, 2023, check of participants, as in FedML's ThreeSigmaKrumDefense; first round",
    three_sigma,
    (
        Variant(
            ("centre: yours looks like the mean of all rows, FedML's is that of half of them, by Krum scores",),
            _from_the_mean,
        ),
    ),
    parameters={"bound": lambda n: (0.5, 1.0, 1.5)[n % 3]},
    fewest_rows=5,
)
AUROR = Reference(
    "auror",
    "Shen et al., Auror: defending against poisoning attacks in collaborative deep learning, ACSAC 2016, one round",
    auror,
    (
        Variant(
            ("clusters: yours looks like one clustering by all indicative columns, the paper counts columns",),
            _one_clustering,
        ),
    ),
    parameters={"alpha": lambda n: (0.02, 0.5, 2.0)[n % 3]},
    fewest_rows=4,
    # The variant tries all partitions.
    most_rows=8,
    squares=False,
)
