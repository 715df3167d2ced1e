"""Definitions of pre-aggregations: each answer is a list of new rows."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from fflbench.references.coordinatewise import mean
from fflbench.references.krum import lowest
from fflbench.references.reference import Answer, Reference, Rows, UndefinedError, Variant

APPLIED = "yours looks like rows come back unchanged: is it applied at all?"
UNCHANGED = Variant((APPLIED,), lambda rows, **_: [[list(row) for row in rows]])


# Nearest-neighbour mixing


def nnm(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield every row replaced by the mean of its n - f nearest, itself included."""
    return map(list, product(*nnm_choices(rows, len(rows) - f)))


def nnm_choices(rows: Rows, count: int, *, itself: bool = True) -> list[list[Answer]]:
    """Return for every row all means that it may be replaced by: several where distances are tied."""
    choices = []
    for i, row in enumerate(rows):
        others = [j for j in range(len(rows)) if j != i]
        distances = [math.dist(row, rows[j]) for j in others]
        own = [row] if itself else []
        wanted = min(count - len(own), len(others))
        means: list[Answer] = []
        for chosen in lowest(distances, wanted) if wanted > 0 else [()]:
            new = mean([*own, *(rows[others[k]] for k in chosen)])
            means += [] if new in means else [new]
        choices.append(means)
    return choices


# Bucketing


def bucketing(rows: Rows, s: int = 2, order: Sequence[int] | None = None) -> Iterator[Answer]:
    """Yield the means of s consecutive rows of a permutation, or of every one (algorithm 1)."""
    if s < 1:
        raise UndefinedError("s must be at least 1")
    buckets = _partitions(list(range(len(rows))), s) if order is None else [_consecutive(order, s)]
    for each in buckets:
        yield [mean([rows[k] for k in bucket]) for bucket in each]


def _consecutive(order: Sequence[int], s: int) -> list[Sequence[int]]:
    return [order[start : start + s] for start in range(0, len(order), s)]


def _partitions(left: list[int], s: int) -> Iterator[list[Sequence[int]]]:
    """Yield all sequences of buckets of s, the last of which may be smaller."""
    if not left:
        yield []
        return
    for bucket in combinations(left, min(s, len(left))):
        for others in _partitions([k for k in left if k not in bucket], s):
            yield [bucket, *others]


# Clipping


def clipping(rows: Rows, bound: float = 2.0) -> list[Answer]:
    """Scale every row down to a norm of at most the bound."""
    if not bound > 0:
        raise UndefinedError("bound must be above 0")
    return _clipped(rows, bound)


def _clipped(rows: Rows, bound: float) -> list[Answer]:
    return [[_scaled(row, min(1.0, bound / norm) if (norm := math.hypot(*row)) else 1.0) for row in rows]]


def arc(rows: Rows, f: int) -> list[Answer]:
    """Scale the k rows with the largest norms down to the next largest norm, with k = floor(2 f/n (n - f))."""
    n = len(rows)
    return _clip_largest(rows, 2 * f * (n - f) // n)


def _clip_largest(rows: Rows, k: int) -> list[Answer]:
    norms = sorted((math.hypot(*row) for row in rows), reverse=True)
    return _clipped(rows, norms[k])


def _scaled(row: Sequence[float], factor: float) -> list[float]:
    return [factor * value for value in row]


def _all_rescaled(rows: Rows, bound: float = 2.0) -> Iterable[Answer]:
    return [[_scaled(row, bound / norm if (norm := math.hypot(*row)) else 1.0) for row in rows]]


def _largest_f(n: int) -> int:
    return (n - 1) // 2


NNM = Reference(
    "nnm",
    "Allouah et al., A recipe for optimal Byzantine ML under heterogeneity, AISTATS 2023",
    nnm,
    (
        Variant(
            ("neighbours: yours looks like n - f others, the paper's are n - f with the row itself among them",),
            lambda rows, f: map(list, product(*nnm_choices(rows, len(rows) - f, itself=False))),
        ),
        Variant(
            ("neighbours: yours looks like n - f - 1 with the row itself among them, the paper's are n - f",),
            lambda rows, f: map(list, product(*nnm_choices(rows, len(rows) - f - 1))),
        ),
        Variant(
            ("neighbours: yours looks like n - f - 1 others, the paper's are n - f with the row itself among them",),
            lambda rows, f: map(list, product(*nnm_choices(rows, len(rows) - f - 1, itself=False))),
        ),
        UNCHANGED,
    ),
    _largest_f,
    fewest_rows=3,
)
BUCKETING = Reference(
    "bucketing",
    "Karimireddy et al., Byzantine-robust learning on heterogeneous datasets via bucketing, ICLR 2022, algorithm 1",
    bucketing,
    (
        Variant(
            ("buckets: yours looks like rows are taken in their order, the paper permutes them first",),
            lambda rows, s=2: bucketing(rows, s, range(len(rows))),
        ),
    ),
    parameters={"s": lambda n: 2 + n % 2},
    fewest_rows=3,
    # All partitions are tried.
    most_rows=6,
    random=True,
    linear=True,
    squares=False,
)
CLIPPING = Reference(
    "clipping",
    "Static clipping, as in ByzFL",
    clipping,
    (
        Variant(
            ("short rows: yours looks like they are scaled up to the bound, the definition leaves them",), _all_rescaled
        ),
        UNCHANGED,
    ),
    parameters={"bound": lambda n: (0.5, 2.0, 5.0)[n % 3]},
)
ARC = Reference(
    "arc",
    "Allouah et al., Adaptive gradient clipping for robust federated learning, ICLR 2025",
    arc,
    (
        Variant(
            ("rows clipped: yours looks like f, the paper's are floor(2 f/n (n - f))",),
            lambda rows, f: _clip_largest(rows, f),
        ),
        Variant(
            ("rows clipped: yours looks like ceil(2 f/n (n - f)), the paper's are floor(2 f/n (n - f))",),
            lambda rows, f: _clip_largest(rows, -(-2 * f * (len(rows) - f) // len(rows))),
        ),
        Variant(
            ("bound: yours looks like the k-th largest norm, the paper's is the next one",),
            lambda rows, f: _clip_largest(rows, max(0, 2 * f * (len(rows) - f) // len(rows) - 1)),
        ),
        Variant(
            ("rows clipped: yours looks like 2f, the paper's are floor(2 f/n (n - f))",),
            lambda rows, f: _clip_largest(rows, min(2 * f, len(rows) - 1)),
        ),
        UNCHANGED,
    ),
    _largest_f,
    fewest_rows=3,
)
