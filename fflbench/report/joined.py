"""The table that joins all measures: one row per defense, with a few columns per measure."""

import math
from collections.abc import Iterable, Sequence

from fflbench.measures.measure import Measure
from fflbench.metrics import Metric
from fflbench.records.parts import chained
from fflbench.records.record import Record
from fflbench.report.groups import Group, candidates, strongest_cell
from fflbench.report.table import OVERALL, Cell, Column, FilledColumn, Table
from fflbench.texts import slug


def tables(groups: Sequence[Group]) -> Iterable[Table]:
    """Return one table per task that more than one measure was run on."""
    for task in dict.fromkeys(group.task for group in groups):
        chosen = _chosen(task, groups)
        if len(chosen) > 1:
            yield _table(task, chosen)


def _chosen(task: str, groups: Sequence[Group]) -> list[Group]:
    """Return the first setting of each measure on a task that is not a demonstration."""
    first: dict[type[Measure], Group] = {}
    for group in sorted(groups, key=lambda group: group.task != task):
        there = group.task == task or group.measure.any_task
        if there and not group.demonstrates:
            first.setdefault(group.measure, group)
    return [group for group in groups if first.get(group.measure) is group]


def _columns(group: Group) -> Iterable[FilledColumn]:
    given = group.measure.joined_columns(group.records)
    for filled in _default_columns(group) if given is None else given:
        yield FilledColumn(filled.column.model_copy(update={"section": group.measure.section}), filled.cells)


def _default_columns(group: Group) -> Iterable[FilledColumn]:
    """Return the worst of a measure's joined metrics over attacks and observations, with and without collusion."""
    measure = group.measure
    names = measure.joined
    headline = [metric for metric in measure.metrics if metric.headline]
    metrics = headline[:1] if names is None else [metric for metric in measure.metrics if metric.name in names]
    hostile = [attack for attack in group.attacks if attack != group.clean or len(group.attacks) == 1]
    for metric in metrics:
        for suffix, observations in _by_help(group).items():
            yield _joined(group, metric, hostile, observations, suffix)


def _by_help(group: Group) -> dict[str, list[str]]:
    """Return observations by a server alone, and those that need colluding parties."""
    helped = {group.observation(record) for record in group.records if record.facts.get("caution")}
    alone = [name for name in group.observations if name not in helped]
    with_help = [name for name in group.observations if name in helped]
    return {suffix: names for suffix, names in (("", alone), ("with help", with_help)) if names}


def _joined(
    group: Group, metric: Metric, attacks: Sequence[str], observations: Sequence[str], suffix: str
) -> FilledColumn:
    title = f"{metric.title} {suffix}".strip()
    worst = " The strongest attack by the mean over seeds." if len(attacks) * len(observations) > 1 else ""
    who = " The server has the help of an oracle or of a participant." if suffix else ""
    column = Column.of(
        metric, name=slug(f"{group.records[0].measure}-{metric.name}-{suffix}"), title=title,
        meaning=f"{metric.meaning}{worst}{who}",
    )  # fmt: skip
    cells = {
        defense: strongest_cell(metric, column, tried, group.seeds)
        for defense in group.rows
        if (tried := candidates(group, defense, attacks, observations))
    }
    return FilledColumn(column, cells)


def _table(task: str, chosen: Sequence[Group]) -> Table:
    columns = [filled for group in chosen for filled in _columns(group)]
    labels = dict.fromkeys(label for each in columns for label in each.cells)
    first = columns[0]
    records = [record for group in chosen for record in group.records if group.task == task]
    return Table.of(
        columns,
        rows=sorted(labels, key=lambda label: _rank(first.cells.get(label, Cell()), first.column)),
        flags=lambda label: (*_row_flags(label, chosen), *_differing(label, records)),
        name=slug(f"overall-{task}"),
        title=f"{task}: all measures",
        section=OVERALL,
        notes=(
            f"Sorted by {first.column.title}. Empty: was not run.",
            f"Figures are of: {'; '.join(group.head for group in chosen)}.",
            *(f"Rows that share {group.shared} share figures of {group.title}." for group in chosen if group.shared),
        ),
    )


def _rank(cell: Cell, column: Column) -> float:
    return math.inf if cell.mean is None else -cell.mean if column.higher_is_better else cell.mean


def _row_flags(label: str, groups: Sequence[Group]) -> Iterable[str]:
    flags = [
        flag
        for group in groups
        for flag in group.measure.row_flags([record for record in group.of(defense=label) if record.status == "done"])
    ]
    return dict.fromkeys(flags)


def _differing(label: str, records: Sequence[Record]) -> Iterable[str]:
    """Yield a note where a defense has other parameters for one measure than for another."""
    values: dict[tuple[str, str], dict[str, str]] = {}
    for record in (record for record in records if record.labels["defense"] == label):
        for part in chained(record.configuration["defense"]):
            for name, value in part.parameters.items():
                values.setdefault((part.key, name), {})[record.measure] = str(value)
    for (_, name), by_measure in values.items():
        if len(set(by_measure.values())) > 1:
            uses = ", ".join(f"{measure} with {name} = {value}" for measure, value in by_measure.items())
            yield f"measured with different settings: {uses}"
