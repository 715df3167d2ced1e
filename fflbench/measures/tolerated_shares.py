"""Tolerated shares of attackers: how many a defense withstands before its accuracy falls to half."""

from collections.abc import Iterable
from statistics import fmean

from fflbench.plugin import Column, FilledColumn, Record, Table, TableCell, record_groups, slug, sweeps

SHARE = "share"
"""Parameter of attacks: the share of participants that attack."""
KEPT = 0.5
"""Share of the accuracy without attackers below which a defense does not tolerate an attack."""
TOLERATED = (
    "Largest share of attackers up to which, from 0 on and at every share that was run, the mean {metric} over seeds "
    "is at least half of that of the same defense without attackers. Runs that diverged count with 0."
)


def share_sweeps(group: record_groups.RecordGroup) -> list[sweeps.Sweep]:
    """Return the sweeps of a group over the share of attackers that have runs without attackers."""
    found = [sweep for sweep in sweeps.find_sweeps([group]) if sweep.is_of_attacks and sweep.parameter == SHARE]
    return [sweep for sweep in found if 0 in sweep.values]


def tolerated_share_columns(group: record_groups.RecordGroup) -> list[FilledColumn]:
    """Return one column per attack with several shares of attackers: the largest that each defense tolerates."""
    return [_tolerated_share_column(sweep) for sweep in share_sweeps(group)]


def tolerated_share_table(group: record_groups.RecordGroup, notes: Iterable[str]) -> Table:
    """Return the table of tolerated shares, one row per defense."""
    columns = tolerated_share_columns(group)
    return Table.from_columns(
        columns,
        rows=[row for row in group.defenses if any(row in each.cells for each in columns)],
        flags=lambda row: group.measure.row_flags(_records_of_row(group, row)),
        defense=group.defenses.__getitem__,
        name=slug(f"{group.task}-tolerated-share"),
        title=f"{group.task}: tolerated share of attackers",
        section=group.measure.section,
        notes=(*dict.fromkeys(each.column.meaning for each in columns), *notes),
        answers="ranges",
    )


def _records_of_row(group: record_groups.RecordGroup, row: str) -> list[Record]:
    return [record for record in group.records if record_groups.row_label(record) == row]


def _tolerated_share_column(sweep: sweeps.Sweep) -> FilledColumn:
    targeted = any(record.facts.get("targeted") for label in sweep.rows for record in sweep.records(label))
    metric = next(
        each for each in sweep.measure.metrics if each.name == ("source_accuracy" if targeted else "accuracy")
    )
    column = Column(
        name=sweep.label,
        title=f"{sweep.label} %",
        meaning=TOLERATED.format(metric=metric.title),
        digits=0,
        factor=100.0,
        higher_is_better=True,
        low=0.0,
        high=1.0,
        seeded=False,
        # No test compares these shares, which are as coarse as those that were run.
        ranked=False,
    )
    cells = {}
    for label in sweep.rows:
        runs = {value: sweep.runs[label, value] for value in sweep.values if (label, value) in sweep.runs}
        cell = _tolerated_share(runs, sweep.seeds, metric.name, metric.diverged)
        cells[label] = cell.with_records(record for each in runs.values() for record in each.records.values())
    return FilledColumn(column, cells)


def _tolerated_share(
    runs_by_share: dict[float, record_groups.SeedRuns], seeds: set[int], metric: str, diverged: float | None
) -> TableCell:
    """Return the largest tolerated share, with the reason where it is not known that the next one is too large."""
    tolerated, least = None, 0.0
    for share, runs in sorted(runs_by_share.items()):
        if problem := runs.problem(seeds, divergence=diverged is None):
            if tolerated is None:
                return TableCell(text=problem)
            return TableCell(mean=tolerated, note=f"{100 * share:g}%: {problem}")
        values = runs.values(metric, diverged)
        mean = fmean(values.values()) if values else 0.0
        if tolerated is None:
            least = KEPT * mean
        if mean < least:
            return TableCell(mean=tolerated)
        tolerated = share
    return TableCell(mean=tolerated, note="largest that was run")
