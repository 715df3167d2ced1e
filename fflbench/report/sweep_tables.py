"""Tables of sweeps: one of each headline metric, defenses by the values of the parameter that was varied.

Where it is a parameter of an attack, these tables replace those of each value. There are then also one of each other
share, and one of differences from the baseline.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fflbench.metrics import Metric
from fflbench.report.metric_tables import Key, differences_from_baseline
from fflbench.report.record_groups import RecordGroup, SeedRuns, is_undefined
from fflbench.report.sweeps import Sweep, find_sweeps
from fflbench.report.table_model import Column, FilledColumn, Table
from fflbench.safe_texts import slug

UNDEFINED = "Undefined: the defense has no result in this setting, as a rule that is not defined for so many attackers."


def build_sweep_tables(groups: Sequence[RecordGroup]) -> Iterable[Table]:
    """Return the tables of all sweeps of these groups."""
    for sweep in find_sweeps(groups):
        yield from _tables_of_sweep(sweep)


def _tables_of_sweep(sweep: Sweep) -> Iterable[Table]:
    for metric in sweep.metrics:
        rows = sweep.rows_by_metric[metric.name]
        if metric.headline or (sweep.is_of_attacks and metric.is_share and metric.kind == "number"):
            filled = [_sweep_column(sweep, metric, value) for value in sweep.values]
            title = Column.from_metric(metric).title
            yield _build_sweep_table(sweep, filled, rows, metric.name, title, metric.meaning, metric)
        if metric.headline and sweep.is_of_attacks and _compares_rows(sweep):
            differences = [each for value in sweep.values for each in _sweep_difference_column(sweep, metric, value)]
            others = [label for label in rows if any(label in each.cells for each in differences)]
            if others:
                title = f"{Column.from_metric(metric).title} against {sweep.baseline}"
                meaning = differences[0].column.meaning
                name = f"{metric.name}-against-{sweep.baseline}"
                yield _build_sweep_table(sweep, differences, others, name, title, meaning, metric)


def _compares_rows(sweep: Sweep) -> bool:
    """Return whether tests compare its rows: results of defenses that one attack has on all of them."""
    return not sweep.measure.observed and not sweep.measure.alone


def _sweep_column(sweep: Sweep, metric: Metric, value: float) -> FilledColumn:
    """Return the column of one value, with marks for the best rows where an attack is varied and rows differ."""
    column = _column_of_value(sweep, value, Column.from_metric(metric))
    found = {label: sweep.cell(metric, column, label, value) for label in sweep.rows_by_metric[metric.name]}
    filled = FilledColumn(column, {label: cell for label, cell in found.items() if cell})
    if not (sweep.is_of_attacks and _compares_rows(sweep)):
        return filled
    values = {label: sweep.runs[label, value].values(metric.name, metric.diverged) for label in filled.cells}
    marked = filled.with_marks(values, sweep.seeds)
    return filled if all(cell.mark for cell in marked.cells.values() if cell.mean is not None) else marked


def _sweep_difference_column(sweep: Sweep, metric: Metric, value: float) -> Iterable[FilledColumn]:
    """Return the column of differences from the baseline at one value."""
    labels = sweep.rows_by_metric[metric.name]
    runs: dict[Key, SeedRuns] = {label: sweep.runs[label, value] for label in labels if (label, value) in sweep.runs}
    baseline = sweep.runs.get((sweep.baseline, value), SeedRuns())
    for each in differences_from_baseline(metric, runs, sweep.baseline, baseline, sweep.seeds, count_diverged=True):
        yield replace(each, column=_column_of_value(sweep, value, each.column))


def _column_of_value(sweep: Sweep, value: float, column: Column) -> Column:
    """Return a column of one value; the unit is in the table's title, since it is not that of the parameter."""
    title = f"{sweep.parameter} = {value:g}"
    return column.model_copy(update={"name": f"{sweep.parameter}-{value:g}", "title": title, "ranked": False})


def _build_sweep_table(
    sweep: Sweep,
    filled: Sequence[FilledColumn],
    rows: Iterable[str],
    name: str,
    title: str,
    meaning: str,
    metric: Metric,
) -> Table:
    return Table.from_columns(
        filled,
        rows=rows,
        flags=lambda label: sweep.measure.row_flags(sweep.records(label)),
        defense=sweep.rows.__getitem__,
        name=slug(f"sweep-{sweep.title}-{name}"),
        title=f"{sweep.title}: {title} by {sweep.parameter}",
        section=sweep.measure.section,
        keys=(sweep.key,),
        notes=(meaning, *_sweep_notes(sweep, metric)),
        is_sweep=True,
    )


def _sweep_notes(sweep: Sweep, metric: Metric) -> Iterable[str]:
    """Yield notes on runs that diverged or are undefined, and on the setting of a swept attack."""
    records = [record for label in sweep.rows_by_metric[metric.name] for record in sweep.records(label)]
    if metric.diverged is not None and any(record.metrics.get("diverged") for record in records):
        yield f"Runs that diverged count with {Column.from_metric(metric).format_value(metric.diverged)}."
    if any(map(is_undefined, records)):
        yield UNDEFINED
    if sweep.is_of_attacks:
        yield from sweep.measure.table_notes(records) if records else ()
