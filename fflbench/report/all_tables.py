"""All tables and warnings of a run or a leaderboard, from its records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.records.cell_configuration import registered_parts
from fflbench.records.manifest import RESULTS_VERSION
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report import all_measures_table, metric_tables, sweep_tables
from fflbench.report.other_processors import mark_other_processors
from fflbench.report.record_groups import group_records, measure_class, records_by_measure
from fflbench.report.table_model import Board, Table
from fflbench.safe_texts import count_with_noun, make_distinct_name, to_printable_line

STALE = "stale: some of its records were made by older code than this"


def build_board(suite: str, records: Sequence[Record], reported_origins: Mapping[str, str] | None = None) -> Board:
    """Return all tables and warnings; `reported_origins` gives the origin of records that were not reproduced here."""
    title, description = _suite_title_and_summary(suite, records)
    reported = reported_origins or {}
    every = group_records(records, reported)
    joined = [*all_measures_table.tables_per_task(every)]
    tables, summary = [*joined], [*joined]
    measured = records_by_measure(records)
    for name, of_measure in measured.items():
        first = [*measure_class(of_measure).summary_tables(of_measure)]
        groups = [group for group in every if group.records[0].measure == name]
        others = [*metric_tables.build_tables(groups), *sweep_tables.build_sweep_tables(groups)]
        own = [*first, *others, *measure_class(of_measure).extra_tables(of_measure)]
        tables += own
        summary += [] if joined else first or own[:1]
    taken: list[str] = []
    for place, table in enumerate(tables):
        # Two titles may have the same slug.
        taken.append(make_distinct_name(table.name, taken))
        tables[place] = table.model_copy(update={"name": taken[-1], "in_summary": table in summary})
    cautions = _defenses_and_cautions_by_record(records, reported)
    timed = [record for of_measure in measured.values() if measure_class(of_measure).alone for record in of_measure]
    return Board(
        suite=suite,
        title=title,
        description=description,
        tables=tuple(
            mark_other_processors(_add_cautions_to_rows(table, cautions), timed, reported) for table in tables
        ),
        flags=tuple(_leaderboard_warnings(records, measured.values())),
    )


def _suite_title_and_summary(suite: str, records: Iterable[Record]) -> tuple[str, str]:
    """Return the suite's title as in its records, else as registered; and its summary if the titles agree."""
    own = Counter(to_printable_line(record.title) for record in records if record.title).most_common(1)
    try:
        entry = registry.get(Kind.SUITE, suite)
    except FflbenchError:
        return (own[0][0] if own else suite), ""
    return (own[0][0], "") if own and own[0][0] != entry.title else (entry.title, entry.summary)


def _defenses_and_cautions_by_record(
    records: Sequence[Record], reported_origins: Mapping[str, str]
) -> dict[str, tuple[set[str], list[str]]]:
    """Return each record's defenses and cautions: that it comes from outside, or from older code."""
    versions = _registered_results_versions()
    return {
        record.id: (
            {record.labels["defense"], *record.shared_by},
            ([reported_origins[record.id]] if record.id in reported_origins else [])
            + [STALE] * _is_stale(record, versions),
        )
        for record in records
    }


def _add_cautions_to_rows(table: Table, cautions_by_record: Mapping[str, tuple[set[str], Sequence[str]]]) -> Table:
    rows, defenses = [], {row.defense for row in table.rows}
    for row in table.rows:
        behind = dict.fromkeys(name for cell in row.cells for name in cell.records)
        # A comparison with a baseline includes the baseline's records, whose cautions belong to another row.
        of_records = [cautions_by_record[name] for name in behind if name in cautions_by_record]
        own = [cautions for of, cautions in of_records if row.defense in of or not of & defenses]
        flags = dict.fromkeys([*row.flags, *(caution for cautions in own for caution in cautions)])
        rows.append(row.model_copy(update={"flags": tuple(flags)}))
    return table.model_copy(update={"rows": tuple(rows)})


def _registered_results_versions() -> dict[tuple[Kind, str], int | str]:
    return {(entry.kind, entry.name): entry.results_version for kind in Kind for entry in registry.entries(kind)}


# Warnings


def _leaderboard_warnings(records: Sequence[Record], measured_records: Iterable[Sequence[Record]]) -> Iterable[str]:
    for of_measure in measured_records:
        yield from measure_class(of_measure).leaderboard_flags(of_measure)
    versions = _registered_results_versions()
    stale = [str(record) for record in records if _is_stale(record, versions)]
    if stale:
        count = count_with_noun(len(stale), "record")
        yield f"{count} of older results versions than this fflbench has: {_join_first(stale)}"
    yield from _mixed_version_warnings(records)
    failed = [f"{record}: {record.reason}" for record in records if record.status == "failed"]
    if failed:
        yield f"{count_with_noun(len(failed), 'cell')} failed: {_join_first(failed)}"
    # Times of another processor are marked in their cells.
    untimed = [record for record in records if not measure_class([record]).alone]
    for part, checked in {"fflbench": records, "libraries": records, "processor": untimed, "python": records}.items():
        values = Counter(str(record.manifest.get(part)) for record in checked)
        if len(values) > 1:
            usual = values.most_common(1)[0][0]
            other = [str(record) for record in checked if str(record.manifest.get(part)) != usual]
            count = count_with_noun(len(other), "record")
            yield f"{count} made with another {part} than the others: {_join_first(other)}"


def _mixed_version_warnings(records: Sequence[Record]) -> Iterable[str]:
    """Yield a warning for each plugin of which the records hold several results versions."""
    by_plugin: dict[str, Counter[str]] = {}
    for record in records:
        made = record.manifest.get("results")
        names: dict[Any, str] = {
            part.key: f'{part.kind} "{part.name}"' for part in registered_parts(record.configuration)
        }
        for key, version in (made if isinstance(made, dict) else {}).items():
            by_plugin.setdefault(names.get(key, str(key)), Counter())[str(version)] += 1
    for name, versions in by_plugin.items():
        if len(versions) > 1:
            counts = ", ".join(f"{count} of version {version}" for version, count in versions.most_common())
            yield f"records are a mixture of versions of {name}: {counts}; fflbench run makes them anew"


def _is_stale(record: Record, versions: Mapping[tuple[Kind, str], int | str]) -> bool:
    """Return whether the code behind a record's result has changed since; plugins that are not loaded are ignored."""
    made = record.manifest.get("results")
    if not isinstance(made, dict) or made.get("core") != RESULTS_VERSION:
        return True
    here = [part for part in registered_parts(record.configuration) if (part.kind, part.name) in versions]
    return any(made.get(part.key) != versions[part.kind, part.name] for part in here)


def _join_first(texts: Sequence[str]) -> str:
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")
