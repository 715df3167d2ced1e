"""Definitions of rules that clip updates: norm clipping, centered clipping, ClippedClustering."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median

from fflbench.references.coordinatewise import mean
from fflbench.references.foolsgold import cosine
from fflbench.references.reference import Answer, Reference, Rows, UndefinedError, Variant

TIED = 1e-9
"""Difference below which two distances of clusters count as equal, since rounding decides between them."""

Cluster = frozenset[int]
Clusters = frozenset[Cluster]


def clipped(row: Sequence[float], bound: float) -> list[float]:
    """Return a row scaled down to a norm of at most the bound."""
    norm = math.hypot(*row)
    return [value * (bound / norm) for value in row] if norm > bound else list(row)


# Norm clipping


def norm_clipping(rows: Rows, bound: float = 3.0) -> list[Answer]:
    """Average rows clipped to the bound."""
    if not bound > 0:
        raise UndefinedError("bound must be above 0")
    return [mean([clipped(row, bound) for row in rows])]


def _rescaled(rows: Rows, bound: float = 3.0) -> list[Answer]:
    return [mean([[value * (bound / norm) for value in row] if (norm := math.hypot(*row)) else row for row in rows])]


# Centered clipping


def centered_clipping(
    rows: Rows, tau: float = 100.0, iterations: int = 1, start: Sequence[float] | None = None
) -> list[Answer]:
    """Move the start, 0 in a first round, by the mean of clipped differences, again and again (algorithm 2)."""
    if not tau > 0 or iterations < 1:
        raise UndefinedError("tau must be above 0 and iterations at least 1")
    centre = [0.0] * len(rows[0]) if start is None else list(start)
    for _ in range(iterations):
        differences = [[a - b for a, b in zip(row, centre, strict=True)] for row in rows]
        step = mean([clipped(each, tau) for each in differences])
        centre = [a + b for a, b in zip(centre, step, strict=True)]
    return [centre]


# ClippedClustering


def clipped_clustering(rows: Rows, earlier_norms: Sequence[float] = ()) -> Iterator[Answer]:
    """Yield means of the larger of two clusters of rows, clipped to the median of all norms so far (section IV-H)."""
    bound = median([*earlier_norms, *(math.hypot(*row) for row in rows)])
    for chosen in larger_clusters(rows):
        yield mean([clipped(rows[k], bound) for k in chosen])


def larger_clusters(rows: Rows) -> list[list[int]]:
    """Return every larger of two clusters that average linkage on cosine distances allows, ties included."""
    n = len(rows)
    distances = [[0.0 if i == j else 1 - cosine(rows[i], rows[j]) for j in range(n)] for i in range(n)]
    level: set[Clusters] = {frozenset(frozenset([k]) for k in range(n))}
    for _ in range(n - 2):
        level = {merged for clusters in level for merged in _merged(clusters, distances)}
    found = {cluster for clusters in level for cluster in clusters if len(cluster) == max(map(len, clusters))}
    return sorted(sorted(cluster) for cluster in found)


def _merged(clusters: Clusters, distances: Sequence[Sequence[float]]) -> Iterator[Clusters]:
    """Yield the clusters with the nearest two of them merged: several where distances are tied."""
    linkage = {
        (a, b): math.fsum(distances[i][j] for i in a for j in b) / (len(a) * len(b))
        for a, b in combinations(sorted(clusters, key=sorted), 2)
    }
    nearest = min(linkage.values())
    for (a, b), distance in linkage.items():
        if distance <= nearest + TIED:
            yield clusters - {a, b} | {a | b}


def _unclipped_clustering(rows: Rows) -> Iterator[Answer]:
    return (mean([rows[k] for k in chosen]) for chosen in larger_clusters(rows))


NORM_CLIPPING = Reference(
    "norm-clipping",
    "Sun et al., Can you really backdoor federated learning?, 2019, without noise",
    norm_clipping,
    (
        Variant(
            ("short rows: yours looks like they are scaled up to the bound, the paper leaves them",),
            _rescaled,
        ),
        Variant(
            ("divisor: yours looks like clipped rows are added up, the paper averages them",),
            lambda rows, bound=3.0: [[value * len(rows) for value in norm_clipping(rows, bound)[0]]],
        ),
    ),
    parameters={"bound": lambda n: (0.5, 2.0, 5.0)[n % 3]},
)
CENTERED_CLIPPING = Reference(
    "centered-clipping",
    "Karimireddy et al., Learning from history for Byzantine robust optimization, ICML 2021, first round from 0",
    centered_clipping,
    (
        Variant(
            ("start: yours looks like the mean of the rows, the paper's is the last aggregate, 0 in a first round",),
            lambda rows, tau=100.0, iterations=1: centered_clipping(rows, tau, iterations, mean(rows)),
        ),
        Variant(
            ("iterations: yours looks like one more than asked for",),
            lambda rows, tau=100.0, iterations=1: centered_clipping(rows, tau, iterations + 1),
        ),
    ),
    parameters={"tau": lambda n: (0.5, 2.0, 5.0)[n % 3], "iterations": lambda n: 1 + n % 2},
)
CLIPPED_CLUSTERING = Reference(
    "clipped-clustering",
    "Li et al., An experimental study of Byzantine-robust aggregation schemes, IEEE TBD 2023, first round",
    clipped_clustering,
    (
        Variant(
            ("clipping: yours looks like rows are averaged as they are, the paper clips them to the median norm",),
            _unclipped_clustering,
        ),
    ),
    fewest_rows=3,
)
