"""Sweeps: records that differ in one number for which a suite gives a list of values."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fflbench.measures.measure import Measure
from fflbench.metrics import Metric
from fflbench.records.cell_configuration import defense_parts, parameter_values
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.record_groups import (
    BASELINE,
    RecordGroup,
    SeedRuns,
    attack_kind,
    attack_label,
    measure_parameters,
    row_label,
    varied_parameters,
)
from fflbench.report.table_model import Column, TableCell


@dataclass(frozen=True)
class Sweep:
    """Results by the values of one parameter."""

    measure: type[Measure]
    kind: str
    """Kind of the part whose parameter is varied."""
    label: str
    """Label of that part, without the value."""
    title: str
    parameter: str
    key: str
    """Heading of its rows."""
    values: tuple[float, ...]
    rows: dict[str, str]
    """Labels of rows, with the defense of each."""
    runs: dict[tuple[str, float], SeedRuns]
    """Records by row and value."""

    @cached_property
    def rows_by_metric(self) -> dict[str, dict[str, str]]:
        """Rows that have each metric that tables show, by its name, since attacks may differ in that."""
        rows: dict[str, dict[str, str]] = {}
        for label, defense in self.rows.items():
            for metric in self.measure.shown_metrics([*self._runs_of(label)]):
                rows.setdefault(metric.name, {})[label] = defense
        return rows

    @property
    def metrics(self) -> list[Metric]:
        """Metrics that tables of its records show, and that it has values for, or only runs that diverged or failed."""
        shown = [metric for metric in self.measure.metrics if metric.name in self.rows_by_metric]
        done = [record for label in self.rows for record in self.records(label)]
        there = {name for record in done for name, value in record.metrics.items() if value is not None}
        return [metric for metric in shown if not done or metric.name in there]

    @property
    def is_of_attacks(self) -> bool:
        """Whether a parameter of an attack is varied; its tables then replace those of each value."""
        return self.kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK)

    @property
    def baseline(self) -> str:
        """Row that others are compared with: FedAvg, or in a suite without it the first one."""
        return BASELINE if BASELINE in self.rows else next(iter(self.rows))

    def cell(self, metric: Metric, column: Column, label: str, value: float) -> TableCell | None:
        """Return the mean over seeds at a value, where diverged runs count; None where it was not run."""
        runs = self.runs.get((label, value))
        return runs.cell(metric, column, self.seeds, count_diverged=True) if runs else None

    @cached_property
    def rows_by_f(self) -> dict[str, dict[str, str]]:
        """Rows of defenses that differ only in their f, with the f of each, by the label of the first of them."""
        first: dict[tuple[str, str], str] = {}
        rows: dict[str, dict[str, str]] = {}
        for label, defense in self.rows.items():
            rest, f = _defense_without_f(next(self._runs_of(label)))
            # A deviation or an attack that the label names besides keeps rows apart.
            rows.setdefault(first.setdefault((rest, label.removeprefix(defense)), label), {})[label] = f
        return rows

    def _runs_of(self, label: str) -> Iterator[Record]:
        return (record for (row, _), runs in self.runs.items() if row == label for record in runs.records.values())

    def records(self, label: str) -> list[Record]:
        """Return the finished records of a row."""
        return [record for record in self._runs_of(label) if record.status == "done"]

    @property
    def seeds(self) -> set[int]:
        """All seeds."""
        return {seed for runs in self.runs.values() for seed in runs.records}


def find_sweeps(groups: Sequence[RecordGroup]) -> list[Sweep]:
    """Return all sweeps of at least two values."""
    by_key: dict[tuple[str, ...], list[tuple[RecordGroup, Record]]] = {}
    for group in groups:
        for record in (*group.records, *_variants_and_their_rows(group)):
            for kind in record.sweep:
                by_key.setdefault(_sweep_key(group, record, kind), []).append((group, record))
    made = [_build_sweep(key[0], members) for key, members in by_key.items()]
    return [sweep for sweep in made if len(sweep.values) > 1]


def _variants_and_their_rows(group: RecordGroup) -> Iterator[Record]:
    """Yield variants of a group's defenses, and under the same attacks the rows that they vary, as one more value."""
    yield from group.variants
    swept = {(record.sweep[Kind.DEFENSE]["label"], attack_label(record)): record for record in group.variants}
    for record in group.records:
        if variant := swept.get((record.labels["defense"], attack_label(record))):
            of_sweep = variant.sweep[Kind.DEFENSE]
            own = parameter_values(record.configuration["defense"], of_sweep["parameter"])
            for value in [value for value in own if isinstance(value, int | float)][:1]:
                yield record.model_copy(update={"sweep": {Kind.DEFENSE.value: {**of_sweep, "value": value}}})


def swept_attacks(group: RecordGroup) -> list[str]:
    """Return the attacks of a group that are values of a sweep."""
    runs = [each for sweep in find_sweeps([group]) if sweep.is_of_attacks for each in sweep.runs.values()]
    inside = {attack_label(record) for each in runs for record in each.records.values()}
    return [name for name in group.attacks if name in inside]


def _sweep_key(group: RecordGroup, record: Record, kind: str) -> tuple[str, ...]:
    """Return everything that the records of one sweep have in common."""
    swept = record.sweep[kind]
    # Rows are defenses, or the attacks on one defense whose own parameter is varied.
    rows = (attack_kind(record),) if kind == Kind.DEFENSE else (Kind.DEFENSE, "deviation")
    labels = [
        swept["label"] if kind == each else label
        for each, label in record.labels.items()
        if each not in (Kind.MEASURE, *rows)
    ]
    observation = "" if kind == Kind.DEFENSE else group.observation(record)
    return kind, record.measure, swept["parameter"], observation, *labels


def _build_sweep(kind: str, members: Sequence[tuple[RecordGroup, Record]]) -> Sweep:
    records = [record for _, record in members]
    group, first = members[0]
    swept = first.sweep[kind]
    varied = varied_parameters(records, group.measure.observed, swept["parameter"] if kind == Kind.MEASURE else "")
    places: dict[tuple[str, float], list[Record]] = {}
    rows: dict[str, str] = {}
    for of_group, record in members:
        label = row_label(record)
        if kind == Kind.DEFENSE:
            label = ", ".join(filter(None, (attack_label(record), of_group.observation(record)))) or label
        fixed = ", ".join(f"{name} = {measure_parameters(record).get(name)}" for name in varied)
        label = f"{label} ({fixed})" if fixed else label
        rows.setdefault(label, record.labels["defense"])
        places.setdefault((label, record.sweep[kind]["value"]), []).append(record)
    return Sweep(
        measure=group.measure,
        kind=kind,
        label=swept["label"],
        title=", ".join(_title_parts(group, first, kind)),
        parameter=swept["parameter"],
        key="attack" if kind == Kind.DEFENSE else "defense",
        values=tuple(sorted({value for _, value in places})),
        rows=rows,
        runs={place: SeedRuns.from_records(of_place) for place, of_place in places.items()},
    )


def _title_parts(group: RecordGroup, record: Record, kind: str) -> list[str]:
    labels = {each: record.sweep[kind]["label"] if each == kind else label for each, label in record.labels.items()}
    if kind == Kind.DEFENSE:
        return [labels["task"], record.measure, *(labels[each] for each in ("defense", "deviation") if each in labels)]
    parts = [labels["task"], record.measure, labels.get(attack_kind(record), ""), group.observation(record)]
    return [part for part in parts if part]


def _defense_without_f(record: Record) -> tuple[str, str]:
    """Return a record's defense without its f, as a text that equal ones share, and that f, if it has any."""
    parts = [*defense_parts(record.configuration["defense"])]
    rest = [
        [part.key, part.name, {name: value for name, value in part.parameters.items() if name != "f"}] for part in parts
    ]
    f = dict.fromkeys(str(part.parameters["f"]) for part in parts if part.parameters.get("f") is not None)
    return json.dumps(rest, sort_keys=True), " or ".join(f)
