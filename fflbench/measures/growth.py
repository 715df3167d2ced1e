"""Growth of costs with the number n and the length D of updates, at the server and at a participant.

Exponents are fitted to measured costs and stand beside the orders of growth that papers state.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from fflbench.plugin import Column, FilledColumn, Record, Table, TableCell, published_results

Points = Mapping[int, float]
"""Costs by the number of updates, or by their length."""

PARTS = ("server", "participant")
BREA = "BREA (computed)"
"""Row of BREA, of which nothing is run: its costs are those of a formula."""


@dataclass(frozen=True)
class CostGrowth:
    """Costs of one defense, by n at a fixed D and by D at a fixed n."""

    server: tuple[Points, Points]
    participant: tuple[Points, Points]
    defense: str
    """Name under which papers state its orders of growth."""
    records: Sequence[Record] = field(default_factory=list)

    @property
    def exponents(self) -> dict[str, tuple[float | None, float | None]]:
        """Exponents of n and of D, by part."""
        by_part = {"server": self.server, "participant": self.participant}
        return {part: (log_log_slope(in_n), log_log_slope(in_d)) for part, (in_n, in_d) in by_part.items()}


def log_log_slope(costs: Points) -> float | None:
    """Return the exponent that fits best, by least squares on logarithms; None with too few positive costs."""
    known = {size: value for size, value in costs.items() if value > 0}
    if len(known) < 2:
        return None
    x, y = [math.log(size) for size in known], [math.log(value) for value in known.values()]
    middle = fmean(x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def computed_growth(
    measured: Iterable[CostGrowth],
    fixed: tuple[int, int],
    server: Callable[[int, int], float],
    participant: Callable[[int, int], float],
) -> CostGrowth:
    """Return the growth of BREA by formulas of n and D, at the sizes that were measured.

    `fixed` holds the D at which n varies, and the n at which D varies.
    """
    pairs = [each.server for each in measured]
    ns, ds = (sorted({size for pair in pairs for size in pair[place]}) for place in (0, 1))

    def points(cost: Callable[[int, int], float]) -> tuple[Points, Points]:
        return {n: cost(n, fixed[0]) for n in ns}, {d: cost(fixed[1], d) for d in ds}

    return CostGrowth(points(server), points(participant), "brea")


def growth_table(
    costs: Mapping[str, CostGrowth], measure: str, *, name: str, title: str, section: str, notes: tuple[str, ...]
) -> Table:
    """Return the table of exponents, with the orders that papers state."""
    exponents = {row: of.exponents for row, of in costs.items()}
    filled = []
    for part in PARTS:
        for place, (letter, meaning) in enumerate({"n": "the number of updates", "D": "their length"}.items()):
            column = Column(
                name=f"{part}_exponent_{letter.lower()}",
                title=f"{part}: exponent in {letter}",
                meaning=f"Of {meaning}.",
            )
            cells = {
                row: TableCell(mean=value).with_records(costs[row].records)
                for row, of in exponents.items()
                if (value := of[part][place]) is not None
            }
            filled.append(FilledColumn(column, cells))
        stated = Column(
            name=f"{part}_order",
            title=f"{part}: the paper states",
            meaning="The order of growth that the paper states.",
        )
        orders = {
            figure.defense: figure.value
            for figure in published_results.find_figures(measure=measure, metric=f"{part}_complexity")
        }
        texts = {row: TableCell(text=orders.get(of.defense, "")) for row, of in costs.items()}
        filled.append(FilledColumn(stated, texts))
    return Table.from_columns(filled, rows=costs, name=name, title=title, section=section, notes=notes)
