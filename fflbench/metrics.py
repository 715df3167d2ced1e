"""Metrics of a measure, declared once: records, tables, plots, pages and `fflbench verify` read the declaration."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

LARGEST = 1e100
"""Largest value in a record: beyond the square of any float32, while its own square is still finite."""
NO_DRIFT = 1e-6
"""Drift of values that were the same on all processors."""


@dataclass(frozen=True)
class Metric:
    """Declaration of one metric of a finished cell."""

    name: str
    """Key in a record's metrics."""
    title: str
    """Heading of its columns, without the unit."""
    meaning: str
    """One sentence for readers who do not know it."""
    higher_is_better: bool | None = None
    """Whether higher values are better for the defense; None where neither is."""
    _: KW_ONLY
    unit: str = ""
    """Unit of the displayed values, as in "%", "dB" or "s"."""
    factor: float = 1.0
    """Factor that converts a value to that unit."""
    digits: int = 2
    """Digits behind the decimal point."""
    powers_from: float = 1e12
    """Value from which on powers of ten are shown."""
    low: float = -LARGEST
    """Least possible value; intervals stay above it."""
    high: float = LARGEST
    """Greatest possible value; intervals stay below it."""
    kind: Literal["number", "flag", "list"] = "number"
    """Type of its values."""
    optional: bool = False
    """Whether a finished cell may have no value of it (None)."""
    added_later: bool = False
    """Whether it was added without a new results version, so that verify does not compare it with records without."""
    headline: bool = False
    """Whether it has a table of its own, defenses by attacks or observations; the first one stands for its cell."""
    shown: bool = True
    """Whether tables of all metrics have a column for it."""
    floor: str = ""
    """Name of the metric with the value expected by chance."""
    trials: str = ""
    """Fact that counts the trials behind a share: seeds are then pooled, with the exact binomial interval."""
    diverged: float | None = None
    """Value that counts for a run that diverged, in worst cases and sweeps; None if such a run has none."""
    seeded: bool = True
    """Whether it depends on the seed; if not, one seed is enough."""
    exact: bool = False
    """Whether it is the same on every machine."""
    drift: float | Callable[[float], float] | None = None
    """Most that it differs between processors, or a function of its value for that; None if it was not measured."""

    @property
    def is_share(self) -> bool:
        """Whether it lies between 0 and 1."""
        return (self.low, self.high) == (0.0, 1.0)

    def tolerance(self, value: float) -> float:
        """Return how far a value may differ between processors; 0 where that is not known."""
        return self.drift(value) if callable(self.drift) else self.drift or 0.0

    def problem(self, value: Any) -> str:
        """Return the reason why a value in a record is invalid for this metric, or ""."""
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


HIGHER = True
"""Value of `higher_is_better` where higher is better for the defense."""
LOWER = False
"""Value of `higher_is_better` where lower is better for the defense."""


def share(name: str, title: str, meaning: str, higher_is_better: bool | None = None, **declared: Any) -> Metric:
    """Return a metric from 0 to 1 that is displayed as a percentage."""
    return Metric(name, title, meaning, higher_is_better, unit="%", factor=100, low=0.0, high=1.0, **declared)


def with_floor(metric: Metric) -> tuple[Metric, Metric]:
    """Return a metric, and the metric of its value expected by chance."""
    floor = replace(
        metric,
        name=f"floor_{metric.name}",
        title=f"{metric.title} by chance",
        meaning="Value expected by chance.",
        higher_is_better=None,
        headline=False,
        shown=False,
        drift=NO_DRIFT,
    )
    return replace(metric, floor=floor.name), floor
