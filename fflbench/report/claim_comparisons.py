"""Comparisons that the test of a paper's claim makes, of values that its tables print or that records hold."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, Protocol

from fflbench import registry
from fflbench.measures.published_results import ClaimTest, PublishedClaim, PublishedPaper
from fflbench.metrics import LARGEST, Metric
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.metric_tables import NO_ATTACK_ROW
from fflbench.report.published_tables import record_value
from fflbench.report.record_groups import (
    NO_ATTACK,
    SeedRuns,
    attack_label,
    measure_class,
    measure_parameters,
    row_label,
)
from fflbench.report.statistics import BySeed

ROUNDING = 1e-9
"""Difference, relative to the values compared, that is rounding."""
MANY = 1e4
"""Number from which on no decimals are shown."""
TERMS = re.compile(r" ([+-]) ")
"""Signs between the metrics of a sum or difference."""


class MissingValueError(Exception):
    """A claim's test needs a value that is neither printed nor recorded."""


# Values, printed or measured


class Place(NamedTuple):
    """Row of a table on one task."""

    task: str
    table: str
    measure: str
    attack: str
    row: str
    parameters: tuple[tuple[str, object], ...]
    """Parameters of the measure."""


class Values(Protocol):
    """Source of values."""

    def by_seed(self, place: Place, path: str) -> BySeed:
        """Return a metric or a fact by seed; empty if there is none."""


class PrintedValues:
    """Values of a paper's own tables, each as if of a single seed."""

    def __init__(self, paper: PublishedPaper) -> None:
        self._values: dict[tuple[object, ...], float] = {}
        for figure in paper.figures:
            if figure.task and figure.metric:
                row = ", ".join(filter(None, (figure.defense, figure.deviation)))
                row += NO_ATTACK_ROW * (figure.attack == NO_ATTACK)
                parameters = (("updates", figure.updates),) if figure.updates else ()
                self._values[figure.table, figure.task, row, parameters, figure.metric] = figure.number

    def by_seed(self, place: Place, path: str) -> BySeed:
        """Return a printed figure under seed 0."""
        value = self._values.get((place.table, place.task, place.row, place.parameters, path))
        return {} if value is None else {0: value}


@dataclass(frozen=True)
class MeasuredValues:
    """Values of records, with the records that were used."""

    records: Sequence[Record]
    used: dict[str, Record] = field(default_factory=dict)

    def by_seed(self, place: Place, path: str) -> BySeed:
        """Return values of the records that a row stands for; of runs without attack, scored for the attack's goal."""
        is_clean = place.row.endswith(NO_ATTACK_ROW)
        label, attack = place.row.removesuffix(NO_ATTACK_ROW), NO_ATTACK if is_clean else place.attack
        there = [record for record in self.records if self._is_of(place, record)]
        attacked = next((record for record in there if attack_label(record) == place.attack), None)
        own = [record for record in there if (row_label(record), attack_label(record)) == (label, attack)]
        values = {}
        for seed, record in SeedRuns.from_records(own).records.items():
            scored = (
                measure_class([record]).score_clean_for_attack(record, attacked) if is_clean and attacked else record
            )
            value = record_value(scored, path)
            if value is None and path == "test_loss" and record.metrics.get("diverged"):
                # A loss that is not finite is left out of records.
                value = LARGEST
            if record.status == "done" and value is not None:
                values[seed] = value
                self.used[record.id] = record
        return values

    @staticmethod
    def _is_of(place: Place, record: Record) -> bool:
        given = measure_parameters(record)
        return (record.configuration["task"]["name"], record.measure) == (place.task, place.measure) and all(
            given.get(name) == value for name, value in place.parameters
        )


# Comparisons


@dataclass(frozen=True)
class ClaimComparison:
    """One comparison of a claim's test."""

    text: str
    gap: BySeed
    """How far values are on the claim's side of what it demands."""
    scale: float
    """Size of the values, for rounding."""
    strict: bool
    """Whether no gap at all is a tie, as for "better"."""
    is_seeded: bool
    """Whether values depend on the seed."""

    @property
    def mean(self) -> float:
        """Mean gap over seeds; 0 if it is rounding."""
        mean = fmean(self.gap.values())
        return 0.0 if abs(mean) <= ROUNDING * self.scale else mean


class ClaimOnTask:
    """Test of a claim on one task, with the values of one source."""

    def __init__(
        self, paper: PublishedPaper, claim: PublishedClaim, test: ClaimTest, task: str, source: Values
    ) -> None:
        self.paper, self.claim, self.test, self.task, self.source = paper, claim, test, task, source
        self.table = test.table or claim.table

    def comparisons(self) -> Iterator[ClaimComparison]:
        """Yield all comparisons, or raise a `MissingValueError`."""
        for metric in self.test.metrics:
            for row in self._expand(self.test.rows):
                if self.test.predicate == "within":
                    yield from self._bounds(metric, row)
                else:
                    others = self._expand(self.test.than) or [row]
                    yield from (each for other in others for each in self._against(metric, row, other))

    def _expand(self, rows: Iterable[str]) -> list[str]:
        return [row for name in rows for row in self.paper.groups.get(name, (name,))]

    def _bounds(self, metric: str, row: str) -> Iterator[ClaimComparison]:
        values = self._quantity(metric, row, self.table)
        for bound, sign, word in ((self.test.low, 1, "at least"), (self.test.high, -1, "at most")):
            if bound is not None:
                text = f"{self._title(metric)}: {row} {self._show(metric, values)}, {word} {_format_number(bound)}"
                gap = {seed: sign * (value - bound) for seed, value in values.items()}
                yield ClaimComparison(text, gap, max(map(abs, [bound, *values.values()])), False, self._is_seeded)

    def _against(self, metric: str, row: str, other: str) -> Iterator[ClaimComparison]:
        ours = self._quantity(metric, row, self.table)
        theirs = self._quantity(metric, other, self.test.than_table or self.table)
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            raise MissingValueError
        declared = self._declared(metric)
        sign = 1 if declared and declared.higher_is_better else -1
        lead = {seed: sign * (ours[seed] - theirs[seed]) for seed in seeds}
        where = f" in {self.paper.tables[self.test.than_table]}" if self.test.than_table else ""
        shown = self._show(metric, ours), self._show(metric, theirs)
        text = f"{self._title(metric)}: {row} {shown[0]}, {other}{where} {shown[1]}"
        scale, by = max(map(abs, [*ours.values(), *theirs.values()])), self.test.by
        # Better by `by`; or behind, and for "similar" also ahead, by at most that.
        gaps = {"better": [(1, -by)], "not-worse": [(1, by)], "similar": [(1, by), (-1, by)]}[self.test.predicate]
        for direction, shift in gaps:
            gap = {seed: direction * value + shift for seed, value in lead.items()}
            yield ClaimComparison(text, gap, scale, self.test.predicate == "better", self._is_seeded)

    def _quantity(self, metric: str, row: str, table: str) -> BySeed:
        """Return a metric of a row; if the test says so its growth, or relative to another row."""
        if not self.test.relative_to:
            return self._growth(metric, row, table)
        return _ratio(self._growth(metric, row, table), self._growth(metric, self.test.relative_to, table))

    def _growth(self, metric: str, row: str, table: str) -> BySeed:
        place = Place(
            self.task, table, *self.paper.context(self.claim, table), row, tuple(self.test.parameters.items())
        )
        for name, ends in self.test.growth.items():
            first, last = (
                place._replace(task=str(end))
                if name == "task"
                else place._replace(parameters=(*place.parameters, (name, end)))
                for end in ends
            )
            return _ratio(self._value(last, metric), self._value(first, metric))
        return self._value(place, metric)

    def _value(self, place: Place, metric: str) -> BySeed:
        """Return a metric, or the sum or difference of several."""
        first, *rest = TERMS.split(metric)
        total = dict(self.source.by_seed(place, first))
        for sign, path in zip(rest[::2], rest[1::2], strict=True):
            more = self.source.by_seed(place, path)
            total = {
                seed: value + (more[seed] if sign == "+" else -more[seed])
                for seed, value in total.items()
                if seed in more
            }
        if not total:
            raise MissingValueError
        return total

    @property
    def _metrics(self) -> tuple[Metric, ...]:
        measure, _ = self.paper.context(self.claim, self.table)
        declared: tuple[Metric, ...] = registry.get(Kind.MEASURE, measure).target.metrics
        return declared

    @property
    def _is_seeded(self) -> bool:
        return any(metric.seeded for metric in self._metrics)

    def _declared(self, metric: str) -> Metric | None:
        return next((each for each in self._metrics if each.name == TERMS.split(metric)[0]), None)

    def _title(self, metric: str) -> str:
        declared = self._declared(metric)
        growth = "".join(f", {name} {last} over {first}" for name, (first, last) in self.test.growth.items())
        over = f" over that of {self.test.relative_to}" if self.test.relative_to else ""
        settings = "".join(f", {name} = {value}" for name, value in self.test.parameters.items())
        return f"{self.test.quantity or (declared.title if declared else metric)}{growth}{over}{settings}"

    def _show(self, metric: str, values: BySeed) -> str:
        mean, declared = fmean(values.values()), self._declared(metric)
        if mean > LARGEST / (len(values) + 1):
            return "diverged"
        is_share = declared and declared.is_share and not (self.test.growth or self.test.relative_to)
        return f"{100 * mean:.2f}%" if is_share else _format_number(mean)


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= MANY else f"{value:.4g}"


def _ratio(values: BySeed, others: BySeed) -> BySeed:
    found = {seed: value / others[seed] for seed, value in values.items() if others.get(seed)}
    if not found:
        raise MissingValueError
    return found
