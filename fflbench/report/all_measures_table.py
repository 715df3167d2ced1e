"""The table that joins all measures: one row per defense, with a few columns per measure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fflbench.measures.measure import Measure
from fflbench.metrics import Metric
from fflbench.records.cell_configuration import defense_parts
from fflbench.records.record import Record
from fflbench.report.record_groups import RecordGroup, attack_runs_by_name
from fflbench.report.table_model import OVERALL, Column, FilledColumn, Table, best_first
from fflbench.report.worst_cases import strongest_attack_cell
from fflbench.safe_texts import slug


def tables_per_task(groups: Sequence[RecordGroup]) -> Iterable[Table]:
    """Return one table per task that more than one measure was run on."""
    for task in dict.fromkeys(group.task for group in groups):
        chosen = _first_group_per_measure(task, groups)
        if len(chosen) > 1:
            yield _build_task_table(task, chosen)


def _first_group_per_measure(task: str, groups: Sequence[RecordGroup]) -> list[RecordGroup]:
    """Return the first setting of each measure on a task that is not a demonstration."""
    first: dict[type[Measure], RecordGroup] = {}
    for group in sorted(groups, key=lambda group: group.task != task):
        there = group.task == task or group.measure.any_task
        if there and not group.is_demonstration:
            first.setdefault(group.measure, group)
    return [group for group in groups if first.get(group.measure) is group]


def _measure_columns(group: RecordGroup) -> Iterable[FilledColumn]:
    given = group.measure.joined_columns((*group.records, *group.variants))
    for filled in _worst_case_columns(group) if given is None else given:
        yield replace(filled, column=filled.column.model_copy(update={"section": group.measure.section}))


def _worst_case_columns(group: RecordGroup) -> Iterable[FilledColumn]:
    """Return the worst of a measure's joined metrics over attacks and observations, with and without collusion."""
    measure = group.measure
    names = measure.joined
    headline = [metric for metric in measure.metrics if metric.headline]
    metrics = headline[:1] if names is None else [metric for metric in measure.metrics if metric.name in names]
    hostile = [attack for attack in group.attacks if attack != group.no_attack or len(group.attacks) == 1]
    for metric in metrics:
        for suffix, observations in _observations_by_collusion(group).items():
            yield _worst_case_column(group, metric, hostile, observations, suffix)


def _observations_by_collusion(group: RecordGroup) -> dict[str, list[str]]:
    """Return observations by a server alone, and those that need colluding parties."""
    helped = {group.observation(record) for record in group.records if record.facts.get("caution")}
    alone = [name for name in group.observations if name not in helped]
    with_help = [name for name in group.observations if name in helped]
    return {suffix: names for suffix, names in (("", alone), ("with help", with_help)) if names}


def _worst_case_column(
    group: RecordGroup, metric: Metric, attacks: Sequence[str], observations: Sequence[str], suffix: str
) -> FilledColumn:
    title = f"{metric.title} {suffix}".strip()
    worst = " The strongest attack by the mean over seeds." if len(attacks) * len(observations) > 1 else ""
    who = " The server has the help of an oracle or of a participant." if suffix else ""
    column = Column.from_metric(
        metric, name=slug(f"{group.records[0].measure}-{metric.name}-{suffix}"), title=title,
        meaning=f"{metric.meaning}{worst}{who}",
    )  # fmt: skip
    cells = {
        defense: strongest_attack_cell(metric, column, tried, group.seeds)
        for defense in group.rows
        if (tried := attack_runs_by_name(group, defense, attacks, observations))
    }
    return FilledColumn(column, cells)


def _build_task_table(task: str, groups: Sequence[RecordGroup]) -> Table:
    columns = [filled for group in groups for filled in _measure_columns(group)]
    labels = dict.fromkeys(label for each in columns for label in each.cells)
    records = [record for group in groups for record in group.records if group.task == task]
    return Table.from_columns(
        columns,
        rows=best_first(labels, columns),
        flags=lambda label: (*_row_flags(label, groups), *_notes_on_differing_parameters(label, records)),
        name=slug(f"overall-{task}"),
        title=f"{task}: all measures",
        section=OVERALL,
        notes=(
            f"Sorted by {', then by '.join(each.column.title for each in columns[:2])}. Empty: was not run.",
            f"Values are of: {'; '.join(group.heading for group in groups)}.",
            *(
                f"Rows that share {group.shared_parts} share values of {group.title}."
                for group in groups
                if group.shared_parts
            ),
        ),
    )


def _row_flags(defense: str, groups: Sequence[RecordGroup]) -> Iterable[str]:
    flags = [
        flag
        for group in groups
        for flag in group.measure.row_flags(
            [record for record in group.records_of(defense=defense) if record.status == "done"]
        )
    ]
    return dict.fromkeys(flags)


def _notes_on_differing_parameters(defense: str, records: Sequence[Record]) -> Iterable[str]:
    """Yield a note where a defense has other parameters for one measure than for another."""
    values: dict[tuple[str, str], dict[str, str]] = {}
    for record in (record for record in records if record.labels["defense"] == defense):
        for part in defense_parts(record.configuration["defense"]):
            for name, value in part.parameters.items():
                values.setdefault((part.key, name), {})[record.measure] = str(value)
    for (_, name), by_measure in values.items():
        if len(set(by_measure.values())) > 1:
            uses = ", ".join(f"{measure} with {name} = {value}" for measure, value in by_measure.items())
            yield f"measured with different settings: {uses}"
