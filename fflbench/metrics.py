"""Metrics of a measure, declared once: records, tables, plots, pages and `fflbench verify` read the declaration."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

LARGEST = 1e100
"""Far beyond any float32, or its square, that a cell can come to; its own square is still a number."""
STILL = 1e-6
"""Drift of figures that never moved between processors."""


@dataclass(frozen=True)
class Metric:
    """One figure of a finished cell."""

    name: str
    """Key in a record's metrics."""
    title: str
    """Heading of its columns, without the unit."""
    meaning: str
    """One sentence for readers who do not know it."""
    higher_is_better: bool | None = None
    """For the defense; None where neither is."""
    _: KW_ONLY
    unit: str = ""
    """Of the figures that people see, as in "%", "dB" or "s"."""
    factor: float = 1.0
    """Factor that turns a figure into that unit."""
    digits: int = 2
    """Behind the point."""
    powers_from: float = 1e12
    """Figures as large as this are shown as powers of ten."""
    low: float = -LARGEST
    high: float = LARGEST
    """Least and greatest possible figure; intervals stay within them."""
    kind: Literal["number", "flag", "list"] = "number"
    optional: bool = False
    """Whether a finished cell may have no figure of it (None)."""
    headline: bool = False
    """Whether it has a table of its own, defenses by attacks or observations; the first one stands for its cell."""
    shown: bool = True
    """Whether tables of all metrics have a column of it."""
    floor: str = ""
    """Name of the metric that says what chance alone gives."""
    trials: str = ""
    """Fact that counts the trials behind a share: seeds are then pooled, with the exact binomial interval."""
    seeded: bool = True
    """Whether it depends on the seed; else a single one is enough."""
    exact: bool = False
    """Whether it is the same on every machine."""
    drift: float | Callable[[float], float] | None = None
    """How far it moves between processors, or a function of its value that says so; None: nobody has measured that."""

    @property
    def is_share(self) -> bool:
        """Whether it lies between 0 and 1."""
        return (self.low, self.high) == (0.0, 1.0)

    def reach(self, value: float) -> float:
        """Return how far a figure of this value may move between processors; 0 where that is not known."""
        return self.drift(value) if callable(self.drift) else self.drift or 0.0

    def problem(self, value: Any) -> str:
        """Return what keeps a value in a record from being this metric's, or nothing."""
        if value is None:
            return "" if self.optional else "is missing"
        if self.kind == "flag":
            return "" if isinstance(value, bool) else "is not true or false"
        if self.kind == "list" and not isinstance(value, list):
            return "is no list"
        for each in value if self.kind == "list" else [value]:
            if each is None and self.kind == "list":
                continue
            if isinstance(each, bool) or not isinstance(each, int | float):
                return "is no number"
            if not self.low <= each <= self.high:
                return f"is {each:g}, and must be from {self.low:g} to {self.high:g}"
        return ""


HIGHER, LOWER = True, False
"""Which figures are better, for the defense."""


def share(name: str, title: str, meaning: str, higher_is_better: bool | None = None, **declared: Any) -> Metric:
    """Return a metric from 0 to 1 that people see as a percentage."""
    return Metric(name, title, meaning, higher_is_better, unit="%", factor=100, low=0.0, high=1.0, **declared)


def with_floor(metric: Metric) -> tuple[Metric, Metric]:
    """Return a metric, and the one that says what chance alone gives."""
    floor = replace(
        metric,
        name=f"floor_{metric.name}",
        title=f"{metric.title} by chance",
        meaning="What chance alone gives.",
        higher_is_better=None,
        headline=False,
        shown=False,
        drift=STILL,
    )
    return replace(metric, floor=floor.name), floor
