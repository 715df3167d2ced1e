"""Definitions of MeaMed and Phocas, which average in every coordinate the values nearest to a centre."""

import math
from collections.abc import Callable, Iterator
from itertools import product

from fflbench.references.coordinatewise import median, trimmed_mean
from fflbench.references.krum import lowest
from fflbench.references.reference import Answer, Definition, Reference, Rows, Variant

Centre = Callable[[Rows, int], Answer]
"""Centre of every coordinate, as a function of the rows and f."""


def around(rows: Rows, centre: Answer, count: int) -> Iterator[Answer]:
    """Yield the means of the values of every coordinate that are nearest to its centre, for every choice among ties."""
    choices = [
        nearest_means(list(column), middle, count)
        for column, middle in zip(zip(*rows, strict=True), centre, strict=True)
    ]
    return map(list, product(*choices))


def nearest_means(values: list[float], centre: float, count: int) -> list[float]:
    """Return every mean of the values nearest to a centre: several where the last of them are as near."""
    distances = [abs(value - centre) for value in values]
    means = (math.fsum(values[k] for k in chosen) / count for chosen in lowest(distances, count))
    return list(dict.fromkeys(means))


def meamed(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of the n - f values of every coordinate that are nearest to its median."""
    return around(rows, median(rows)[0], len(rows) - f)


def phocas(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of the n - f values of every coordinate that are nearest to its trimmed mean."""
    return around(rows, trimmed_mean(rows, f)[0], len(rows) - f)


def lower_median(rows: Rows) -> Answer:
    """Return the middle value of every coordinate, or the lower of the middle two."""
    return [sorted(column)[(len(column) - 1) // 2] for column in zip(*rows, strict=True)]


def _mean(rows: Rows, f: int) -> Answer:
    return trimmed_mean(rows, 0)[0]


def _nearest(centre: Centre, dropped: int = 1) -> Definition:
    return lambda rows, f: around(rows, centre(rows, f), len(rows) - dropped * f)


def _largest_f(n: int) -> int:
    return (n - 1) // 2


MEAMED = Reference(
    "meamed",
    "Xie et al., Generalized Byzantine-tolerant SGD, 2018 (arXiv 1802.10116)",
    meamed,
    (
        Variant(
            ("values averaged: yours looks like n - 2f, the paper's are n - f",),
            _nearest(lambda rows, f: median(rows)[0], 2),
        ),
        Variant(
            ("values averaged: yours looks like the trimmed mean, the paper's are the n - f nearest to the median",),
            trimmed_mean,
        ),
        Variant(
            ("centre: yours looks like the trimmed mean (Phocas), the paper's is the median",),
            phocas,
        ),
        Variant(("centre: yours looks like the mean, the paper's is the median",), _nearest(_mean)),
        Variant(
            ("even n: yours looks like it takes the lower of the middle two (torch.median), ours is their mean",),
            _nearest(lambda rows, f: lower_median(rows)),
        ),
    ),
    _largest_f,
    fewest_rows=3,
    squares=False,
)
PHOCAS = Reference(
    "phocas",
    "Xie et al., Phocas: dimensional Byzantine-resilient stochastic gradient descent, 2018 (arXiv 1805.09682)",
    phocas,
    (
        Variant(
            ("values averaged: yours looks like n - 2f, the paper's are n - f",),
            _nearest(lambda rows, f: trimmed_mean(rows, f)[0], 2),
        ),
        Variant(
            (
                "values averaged: yours looks like the trimmed mean, the paper's are the n - f nearest to the trimmed "
                "mean",
            ),
            trimmed_mean,
        ),
        Variant(("centre: yours looks like the median (MeaMed), the paper's is the trimmed mean",), meamed),
        Variant(("centre: yours looks like the mean, the paper's is the trimmed mean",), _nearest(_mean)),
    ),
    _largest_f,
    fewest_rows=3,
    squares=False,
)
