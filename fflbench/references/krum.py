"""Definitions of Krum and Multi-Krum (Blanchard et al., Machine learning with adversaries, NeurIPS 2017, section 4)."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

from fflbench.references.coordinatewise import mean
from fflbench.references.reference import Answer, Definition, Reference, Rows, Variant

BLANCHARD = "Blanchard et al., Machine learning with adversaries, NeurIPS 2017, section 4"

TIED = 1e-6
"""Relative difference below which two scores count as equal, since rounding decides between them."""

Count = Callable[[int, int], int]
"""Number of rows, as a function of n and f."""


def krum_scores(rows: Rows, neighbours: int, power: int = 2) -> list[float]:
    """Return the sum of every row's distances, to a power, to its nearest others."""
    scores = []
    for i, row in enumerate(rows):
        others = sorted(math.dist(row, other) ** power for j, other in enumerate(rows) if j != i)
        scores.append(math.fsum(others[:neighbours]))
    return scores


def lowest(scores: Sequence[float], count: int) -> Iterator[tuple[int, ...]]:
    """Yield every choice of so many lowest scores: several where the last of them is tied."""
    edge = sorted(scores)[count - 1]
    tied = [k for k, score in enumerate(scores) if abs(score - edge) <= TIED * abs(edge)]
    sure = [k for k, score in enumerate(scores) if score < edge and k not in tied]
    for choice in combinations(tied, count - len(sure)):
        yield (*sure, *choice)


def krum(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the row with the lowest sum of squared distances to its n - f - 2 nearest others."""
    return multi_krum(rows, f, 1)


def multi_krum(rows: Rows, f: int, m: int | None = None) -> Iterator[Answer]:
    """Yield the mean of the m rows with the lowest scores; m is n - f unless given."""
    n = len(rows)
    for chosen in lowest(krum_scores(rows, n - f - 2), n - f if m is None else m):
        yield mean([rows[k] for k in chosen])


# Variants

NEIGHBOURS: dict[str, Count] = {
    "": lambda n, f: n - f - 2,
    "n - f - 1, the paper's is n - f - 2": lambda n, f: n - f - 1,
    "n - f - 3, or n - f - 2 with the row itself among them, the paper's are n - f - 2 others": lambda n, f: n - f - 3,
    "n - f, the paper's is n - f - 2": lambda n, f: n - f,
    "n - 2 whatever f is, the paper's is n - f - 2": lambda n, f: n - 2,
    "all n - 1 others, the paper's are the n - f - 2 nearest": lambda n, f: n - 1,
}
POWERS = {
    2: "",
    1: "it adds up distances, the paper's adds up their squares",
    4: "it adds up fourth powers, the paper's adds up squares (is it squared twice?)",
}
AVERAGED: dict[str, Count] = {
    "": lambda n, f: n - f,
    "1 (Krum), and n - f is usual": lambda n, f: 1,
    "n - f - 1, and n - f is usual": lambda n, f: n - f - 1,
    "n - f - 2, and n - f is usual": lambda n, f: n - f - 2,
    "n - 2f, and n - f is usual": lambda n, f: n - 2 * f,
    "a fifth of n, and n - f is usual": lambda n, f: n // 5,
    "f, and n - f is usual": lambda n, f: f,
}


def _define(neighbours: Count, power: int, averaged: Count) -> Definition:
    def define(rows: Rows, f: int, m: int | None = None) -> Iterator[Answer]:
        n = len(rows)
        scores = krum_scores(rows, max(1, neighbours(n, f)), power)
        for chosen in lowest(scores, max(1, averaged(n, f)) if m is None else m):
            yield mean([rows[k] for k in chosen])

    return define


def _variants(averaged: dict[str, Count]) -> tuple[Variant, ...]:
    """Return all combinations of other neighbours, powers and numbers of rows, those with few differences first."""
    made = []
    for (number, neighbours), (power, powers), (rows, count) in product(
        NEIGHBOURS.items(), POWERS.items(), averaged.items()
    ):
        aspects = {"neighbours": number, "distances": powers, "rows averaged": rows}
        texts = tuple(f"{what}: yours looks like {text}" for what, text in aspects.items() if text)
        if texts:
            made.append(Variant(texts, _define(neighbours, power, count)))
    return tuple(sorted(made, key=lambda variant: len(variant.differences)))


def _largest_f(n: int) -> int:
    """Return the largest f for which the paper's guarantee holds: 2f + 2 < n."""
    return (n - 3) // 2


KRUM = Reference("krum", BLANCHARD, krum, _variants({"": lambda n, f: 1}), _largest_f, fewest_rows=5)
MULTI_KRUM = Reference("multi-krum", BLANCHARD, multi_krum, _variants(AVERAGED), _largest_f, fewest_rows=5)
