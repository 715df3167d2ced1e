"""Definitions of FedAvg, the coordinate-wise median and the trimmed mean."""

import math
from collections.abc import Callable, Sequence

from fflbench.references.reference import Answer, Definition, Reference, Rows, Variant

YIN = "Yin et al., Byzantine-robust distributed learning, ICML 2018"

APPLIED = "is the rule applied at all?"


def _per_column(statistic: Callable[[list[float]], float], rows: Rows) -> Answer:
    return [statistic(list(column)) for column in zip(*rows, strict=True)]


def mean(rows: Rows) -> Answer:
    """Return the mean of every coordinate."""
    return _per_column(lambda column: math.fsum(column) / len(column), rows)


def fedavg(rows: Rows, weights: Sequence[float] | None = None) -> list[Answer]:
    """Return the mean, weighted by numbers of examples (McMahan et al., algorithm 1)."""
    shares = [1.0] * len(rows) if weights is None else list(map(float, weights))
    total = math.fsum(shares)
    return [_per_column(lambda column: math.fsum(map(math.prod, zip(shares, column, strict=True))) / total, rows)]


def median(rows: Rows) -> list[Answer]:
    """Return the middle value of every coordinate, or the mean of the middle two (Yin et al., definition 1)."""
    return [_per_column(_middle, rows)]


def _middle(values: Sequence[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else ordered[half - 1] / 2 + ordered[half] / 2


def trimmed_mean(rows: Rows, f: int) -> list[Answer]:
    """Drop the f largest and the f smallest values of every coordinate and average the rest (definition 2)."""
    kept = len(rows) - 2 * f
    return [_per_column(lambda column: math.fsum(sorted(column)[f : f + kept]) / kept, rows)]


def _nearest(column: list[float], centre: float, count: int) -> float:
    kept = sorted(column, key=lambda value: abs(value - centre))[:count]
    return math.fsum(kept) / len(kept)


def _variant(difference: str, statistic: Callable[[list[float], int], float]) -> Variant:
    """Return a variant of the trimmed mean."""
    return Variant((difference,), lambda rows, f: [_per_column(lambda column: statistic(column, f), rows)])


def _unweighted(define: Callable[[Rows], Answer]) -> Definition:
    return lambda rows, weights=None: [define(rows)]


TRIMMED_MEANS = (
    _variant(
        "trimming: yours looks like f values in all, the paper drops f from each side",
        lambda column, f: math.fsum(sorted(column)[f // 2 : len(column) - (f + 1) // 2]) / (len(column) - f),
    ),
    _variant(
        "trimming: yours looks like only the f largest are dropped, the paper drops the f smallest too",
        lambda column, f: math.fsum(sorted(column)[: len(column) - f]) / (len(column) - f),
    ),
    _variant(
        "trimming: yours looks like only the f smallest are dropped, the paper drops the f largest too",
        lambda column, f: math.fsum(sorted(column)[f:]) / (len(column) - f),
    ),
    _variant(
        "trimming: yours looks like a tenth from each side whatever f is, the paper drops f from each side",
        lambda column, f: (
            math.fsum(sorted(column)[len(column) // 10 : len(column) - len(column) // 10])
            / (len(column) - 2 * (len(column) // 10))
        ),
    ),
    _variant(
        "trimming: yours looks like it keeps the n - 2f values nearest to the mean, the paper drops the f largest and "
        "the f smallest",
        lambda column, f: _nearest(column, math.fsum(column) / len(column), len(column) - 2 * f),
    ),
    _variant(
        "trimming: yours looks like it keeps the n - 2f values nearest to the median, the paper drops the f largest "
        "and the f smallest",
        lambda column, f: _nearest(column, _middle(column), len(column) - 2 * f),
    ),
    _variant(
        "trimming: yours looks like it keeps the n - f values nearest to the median (MeaMed), the paper drops the f "
        "largest and the f smallest",
        lambda column, f: _nearest(column, _middle(column), len(column) - f),
    ),
    _variant(
        "divisor: yours looks like n, the paper divides by the n - 2f values that are left",
        lambda column, f: math.fsum(sorted(column)[f : len(column) - f]) / len(column),
    ),
)

FEDAVG = Reference(
    "fedavg",
    "McMahan et al., Communication-efficient learning of deep networks, AISTATS 2017",
    fedavg,
    (
        Variant(
            ("weights: yours looks like all rows count alike, the paper weighs them by numbers of examples",),
            _unweighted(mean),
        ),
        Variant(
            ("divisor: yours looks like the sum of all rows, the paper's is their mean",),
            _unweighted(lambda rows: _per_column(math.fsum, rows)),
        ),
        Variant(
            ("divisor: yours looks like rows times weights are added up, the paper divides by the sum of the weights",),
            lambda rows, weights=None: [
                [value * math.fsum(weights or [1.0] * len(rows)) for value in fedavg(rows, weights)[0]]
            ],
        ),
    ),
    parameters={"weights": lambda n: [float(1 + 3 * k % 7) for k in range(n)]},
    linear=True,
    squares=False,
)
MEDIAN = Reference(
    "median",
    f"{YIN}, definition 1",
    median,
    (
        Variant(
            ("even n: yours looks like the lower of the middle two (torch.median), the paper's is their mean",),
            lambda rows: [_per_column(lambda column: sorted(column)[(len(column) - 1) // 2], rows)],
        ),
        Variant(
            ("even n: yours looks like the upper of the middle two values, the paper's is their mean",),
            lambda rows: [_per_column(lambda column: sorted(column)[len(column) // 2], rows)],
        ),
    ),
    squares=False,
)
TRIMMED_MEAN = Reference(
    "trimmed-mean",
    f"{YIN}, definition 2",
    trimmed_mean,
    TRIMMED_MEANS,
    largest_f=lambda n: (n - 1) // 2,
    fewest_rows=3,
    squares=False,
)
