"""Marks of times that were measured on another processor than the others of their table."""

from collections import Counter
from collections.abc import Collection, Sequence

from fflbench.records.record import Record
from fflbench.report.table_model import Row, Table, TableCell


def processor_name(record: Record) -> str:
    """Return the name of the processor that made a record."""
    return str(record.manifest.get("processor") or "unknown")


def usual_processor(records: Sequence[Record], reported: Collection[str]) -> str:
    """Return the processor of most records that were not reported from outside, if any; of several, of the first."""
    own = [record for record in records if record.id not in reported]
    return Counter(map(processor_name, own or records)).most_common(1)[0][0]


def mark_other_processors(table: Table, timed: Sequence[Record], reported: Collection[str]) -> Table:
    """Return a table whose cells name their processor where it is not the usual one of their measure in the table.

    `timed` are the records of measures of time, in the order of the leaderboard, `reported` the ids of those that were
    reported from outside. No column with such a cell has marks
    of tests, since times of two processors cannot be compared.
    """
    shown = {name for row in table.rows for cell in row.cells for name in cell.records}
    by_measure: dict[str, list[Record]] = {}
    for record in timed:
        if record.id in shown:
            by_measure.setdefault(record.measure, []).append(record)
    elsewhere = {
        record.id: processor_name(record)
        for records in by_measure.values()
        for usual in [usual_processor(records, reported)]
        for record in records
        if processor_name(record) != usual
    }
    if not elsewhere:
        return table
    mixed = {place for row in table.rows for place, cell in enumerate(row.cells) if elsewhere.keys() & {*cell.records}}

    def mark_cell(place: int, cell: TableCell) -> TableCell:
        names = dict.fromkeys(elsewhere[name] for name in cell.records if name in elsewhere)
        return cell.model_copy(update={"mark": "", "other_processor": " and ".join(names)}) if place in mixed else cell

    def mark_row(row: Row) -> Row:
        return row.model_copy(update={"cells": tuple(mark_cell(*item) for item in enumerate(row.cells))})

    return table.model_copy(update={"rows": tuple(map(mark_row, table.rows))})
