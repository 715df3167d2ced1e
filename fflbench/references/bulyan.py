"""Definition of Bulyan (El Mhamdi et al., The hidden vulnerability of distributed learning in Byzantium, ICML 2018)."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from fflbench.references.around_centre import around, lower_median
from fflbench.references.coordinatewise import median, trimmed_mean
from fflbench.references.krum import krum_scores, lowest
from fflbench.references.reference import Answer, Definition, Reference, Rows, Variant

Selection = Callable[[Rows, int], Iterable[tuple[int, ...]]]
"""Rows that are selected, as a function of all rows and f: several answers where scores are tied."""

Combination = Callable[[Rows, int], Iterable[Answer]]
"""Aggregate of selected rows and f: several answers where values are tied."""


def bulyan(rows: Rows, f: int) -> Iterator[Answer]:
    """Yield the mean of the n - 4f values nearest to the median of the n - 2f rows that Krum selects one at a time."""
    return _bulyan(rows, f, iterated, nearest_to_median)


def _bulyan(rows: Rows, f: int, select: Selection, combine: Combination) -> Iterator[Answer]:
    for chosen in select(rows, f):
        yield from combine([rows[k] for k in chosen], f)


def iterated(rows: Rows, f: int, power: int = 2, more: int = 0) -> Iterator[tuple[int, ...]]:
    """Yield every set of n - 2f rows that Krum selects one at a time, with at least one neighbour."""
    seen, paths = set(), [frozenset(range(len(rows)))]
    while paths:
        left = paths.pop()
        if left in seen:
            continue
        seen.add(left)
        if len(left) == 2 * f:
            yield tuple(k for k in range(len(rows)) if k not in left)
            continue
        order = sorted(left)
        scores = krum_scores([rows[k] for k in order], max(1, len(left) - f - 2 + more), power)
        paths += [left - {order[k]} for (k,) in lowest(scores, 1)]


def ranked_once(rows: Rows, f: int) -> Iterator[tuple[int, ...]]:
    """Yield every set of the n - 2f rows with the lowest scores of Krum among all rows."""
    n = len(rows)
    return lowest(krum_scores(rows, max(1, n - f - 2)), n - 2 * f)


def not_mapped_back(rows: Rows, f: int) -> Iterator[tuple[int, ...]]:
    """Yield places of rows among those left, taken as if they were places among all."""
    left, chosen = list(range(len(rows))), []
    for _ in range(len(rows) - 2 * f):
        scores = krum_scores([rows[k] for k in left], max(1, len(left) - f - 2))
        chosen.append(scores.index(min(scores)))
        del left[chosen[-1]]
    yield tuple(chosen)


def nearest_to_median(selected: Rows, f: int) -> Iterator[Answer]:
    """Yield the means of the values nearest to the median, one of the values, of the selected rows."""
    return around(selected, lower_median(selected), len(selected) - 2 * f)


def _around_mean_of_middle(selected: Rows, f: int) -> Iterator[Answer]:
    return around(selected, median(selected)[0], len(selected) - 2 * f)


def _around_upper(selected: Rows, f: int) -> Iterator[Answer]:
    upper = [sorted(column)[len(column) // 2] for column in zip(*selected, strict=True)]
    return around(selected, upper, len(selected) - 2 * f)


SELECTIONS: dict[str, Selection] = {
    "": iterated,
    "one ranking of all rows, the paper selects one at a time among those that are left": ranked_once,
    "places among the rows left are taken as places among all, so that rows are selected twice": not_mapped_back,
    "by sums of distances, the paper's Krum adds up their squares": lambda rows, f: iterated(rows, f, power=1),
    "with one neighbour more, the paper's Krum has n - f - 2": lambda rows, f: iterated(rows, f, more=1),
}
COMBINATIONS: dict[str, Combination] = {
    "": nearest_to_median,
    "the mean of all selected rows, the paper averages the n - 4f values nearest to the median": (
        lambda selected, f: trimmed_mean(selected, 0)
    ),
    "a trimmed mean, the paper averages the n - 4f values nearest to the median": trimmed_mean,
}


def _define(select: Selection, combine: Combination) -> Definition:
    return lambda rows, f: _bulyan(rows, f, select, combine)


def _variants() -> tuple[Variant, ...]:
    """Return all combinations of other selections and second stages, those with one difference first."""
    made = []
    for (selection, select), (combination, combine) in product(SELECTIONS.items(), COMBINATIONS.items()):
        aspects = {"selection": selection, "second stage": combination}
        texts = tuple(f"{what}: yours looks like {text}" for what, text in aspects.items() if text)
        if texts:
            made.append(Variant(texts, _define(select, combine)))
    return tuple(sorted(made, key=lambda variant: len(variant.differences)))


BULYAN = Reference(
    "bulyan",
    "El Mhamdi et al., The hidden vulnerability of distributed learning in Byzantium, ICML 2018, with at least one "
    "neighbour and the lower of two middle values",
    bulyan,
    _variants(),
    lambda n: (n - 3) // 4,
    accepted=(
        Variant(
            ("the median of an even number of values is the mean of the middle two; fflbench takes the lower",),
            _define(iterated, _around_mean_of_middle),
        ),
        Variant(
            ("the median of an even number of values is the upper of the middle two; fflbench takes the lower",),
            _define(iterated, _around_upper),
        ),
    ),
    fewest_rows=7,
)
