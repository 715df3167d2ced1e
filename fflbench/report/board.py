"""All tables and warnings of a run or a leaderboard, from its records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.records.manifest import RESULTS_VERSION
from fflbench.records.parts import parts_of
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report import joined, pivot
from fflbench.report.groups import attack_kind, by_measure, groups, measure_of
from fflbench.report.table import Board, Table
from fflbench.texts import counted, distinct, printable

STALE = "stale: some of its records were made by older code than this"


def board(suite: str, records: Sequence[Record], reported: Mapping[str, str] | None = None) -> Board:
    """Return all tables and warnings; `reported` gives the origin of records that were not reproduced here."""
    title, description = _about(suite, records)
    every = groups(records)
    tables = [*joined.tables(every)]
    measured = by_measure(records)
    for name, of_measure in measured.items():
        tables += measure_of(of_measure).tables(of_measure)
        tables += pivot.tables([group for group in every if group.records[0].measure == name])
    taken: list[str] = []
    for place, table in enumerate(tables):
        # Two titles may have the same slug.
        taken.append(distinct(table.name, taken))
        tables[place] = table.model_copy(update={"name": taken[-1]})
    cautions = _cautions(records, reported or {})
    return Board(
        suite=suite,
        title=title,
        description=description,
        tables=tuple(_with_cautions(table, cautions) for table in tables),
        flags=tuple(_flags(records, measured.values())),
    )


def within(records: Iterable[Record], allowed: Iterable[str]) -> list[Record]:
    """Return the records of a threat model: attackers who need no knowledge beyond what is allowed."""
    known = set(allowed)
    return [record for record in records if set(_knowledge(record)) <= known]


def _knowledge(record: Record) -> Iterable[str]:
    """Return the knowledge that an attacker needs: by the record itself, else by the plugin."""
    if "knows" in record.facts:
        knows: list[str] = record.facts["knows"]
        return knows
    kind = attack_kind(record)
    entry = registry.find(Kind(kind), record.configuration[kind]["name"]) if kind else None
    return entry.knows if entry else ()


def _about(suite: str, records: Iterable[Record]) -> tuple[str, str]:
    """Return the suite's title as in its records, else as registered; and its summary if the titles agree."""
    own = Counter(printable(record.title) for record in records if record.title).most_common(1)
    try:
        entry = registry.get(Kind.SUITE, suite)
    except FflbenchError:
        return (own[0][0] if own else suite), ""
    return (own[0][0], "") if own and own[0][0] != entry.title else (entry.title, entry.summary)


def _cautions(records: Sequence[Record], reported: Mapping[str, str]) -> dict[str, tuple[set[str], list[str]]]:
    """Return each record's defenses and cautions: that it comes from outside, or from older code."""
    versions = _versions()
    return {
        record.id: (
            {record.labels["defense"], *record.shared_by},
            ([reported[record.id]] if record.id in reported else []) + [STALE] * _stale(record, versions),
        )
        for record in records
    }


def _with_cautions(table: Table, cautions_of: Mapping[str, tuple[set[str], Sequence[str]]]) -> Table:
    rows, defenses = [], {row.defense for row in table.rows}
    for row in table.rows:
        behind = dict.fromkeys(name for cell in row.cells for name in cell.records)
        # A comparison with a baseline includes the baseline's records, whose cautions belong to another row.
        of_records = [cautions_of[name] for name in behind if name in cautions_of]
        own = [cautions for of, cautions in of_records if row.defense in of or not of & defenses]
        flags = dict.fromkeys([*row.flags, *(caution for cautions in own for caution in cautions)])
        rows.append(row.model_copy(update={"flags": tuple(flags)}))
    return table.model_copy(update={"rows": tuple(rows)})


def _versions() -> dict[tuple[Kind, str], int | str]:
    return {(entry.kind, entry.name): entry.results_version for kind in Kind for entry in registry.entries(kind)}


# Warnings


def _flags(records: Sequence[Record], measured: Iterable[Sequence[Record]]) -> Iterable[str]:
    for of_measure in measured:
        yield from measure_of(of_measure).board_flags(of_measure)
    versions = _versions()
    stale = [str(record) for record in records if _stale(record, versions)]
    if stale:
        yield f"{counted(len(stale), 'record')} of older results versions than this fflbench has: {_some(stale)}"
    yield from _mixtures(records)
    failed = [f"{record}: {record.reason}" for record in records if record.status == "failed"]
    if failed:
        yield f"{counted(len(failed), 'cell')} failed: {_some(failed)}"
    for part in ("fflbench", "libraries", "processor", "python"):
        values = Counter(str(record.manifest.get(part)) for record in records)
        if len(values) > 1:
            usual = values.most_common(1)[0][0]
            other = [str(record) for record in records if str(record.manifest.get(part)) != usual]
            yield f"{counted(len(other), 'record')} made with another {part} than the others: {_some(other)}"


def _mixtures(records: Sequence[Record]) -> Iterable[str]:
    """Yield a warning for each plugin of which the records hold several results versions."""
    by_plugin: dict[str, Counter[str]] = {}
    for record in records:
        made = record.manifest.get("results")
        names: dict[Any, str] = {part.key: f'{part.kind} "{part.name}"' for part in parts_of(record.configuration)}
        for key, version in (made if isinstance(made, dict) else {}).items():
            by_plugin.setdefault(names.get(key, str(key)), Counter())[str(version)] += 1
    for name, versions in by_plugin.items():
        if len(versions) > 1:
            counts = ", ".join(f"{count} of version {version}" for version, count in versions.most_common())
            yield f"records are a mixture of versions of {name}: {counts}; fflbench run makes them anew"


def _stale(record: Record, versions: Mapping[tuple[Kind, str], int | str]) -> bool:
    """Return whether the code behind a record's result has changed since; plugins that are not loaded are ignored."""
    made = record.manifest.get("results")
    if not isinstance(made, dict) or made.get("core") != RESULTS_VERSION:
        return True
    here = [part for part in parts_of(record.configuration) if (part.kind, part.name) in versions]
    return any(made.get(part.key) != versions[part.kind, part.name] for part in here)


def _some(texts: Sequence[str]) -> str:
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")
