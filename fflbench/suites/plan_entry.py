"""Plan of an entry: the cells that one more defense needs for a complete row of a leaderboard."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fflbench import registry
from fflbench.errors import FflbenchError, ParameterError
from fflbench.federation import chain
from fflbench.records.record import Record
from fflbench.records.validation import DEVIATION
from fflbench.registry import Kind
from fflbench.suites.cell import Cell
from fflbench.suites.choices import Choice, error_location
from fflbench.suites.defense_choices import chain_choices
from fflbench.suites.plan import measure_applies

CHOSEN = (Kind.TASK, Kind.MEASURE, Kind.ATTACK, Kind.PRIVACY_ATTACK)


@dataclass(frozen=True)
class NewDefense:
    """Defense that is to be entered."""

    label: str
    """Name of its row."""
    chain: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> str:
        """Kind of rows that its server sees, as its transport declares it."""
        rows: str = chain.parse(self.chain).transport.target.rows
        return rows


@dataclass(frozen=True)
class EntryPlan:
    """Cells of one more defense, and the measures that cannot be run on it."""

    cells: list[Cell]
    left_out: list[str]
    """Sentences about settings that other kinds of defenses on the leaderboard have."""


def plan_entry(source: str, records: Sequence[Record], defense: NewDefense) -> EntryPlan:
    """Return the cells of a defense in every setting in which the leaderboard's defenses of its kind were run.

    Of one kind are defenses that show their server the same rows: single updates, mixtures, sums. A measure that none
    of those was run with is run in all its settings.
    """
    like = {record.id for record in records if _rows_of(record) in (defense.rows, None)}
    measured = {record.measure for record in records if record.id in like}
    cells: dict[str, Cell] = {}
    left_out: dict[str, None] = {}
    for alike in _records_by_setting(records).values():
        usual = any(record.id in like for record in alike)
        if alike[0].measure in measured and not usual:
            continue
        try:
            # Its labels are those of its own kind, if any.
            ordered = sorted(alike, key=lambda record: record.id not in like)
            cells |= {cell.id: cell for cell in _cells_of_setting(source, ordered, defense)}
        except FflbenchError as error:
            if usual:
                raise
            left_out[str(error)] = None
    return EntryPlan(list(cells.values()), list(left_out))


def _rows_of(record: Record) -> str | None:
    """Return the kind of rows behind a record's transport; None where its measure does not depend on that."""
    transport = record.configuration["defense"].get("transport")
    if transport is None:
        return None
    entry = registry.find(Kind.TRANSPORT, transport["name"])
    return entry.target.rows if entry else ""


def _records_by_setting(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return records by all of their configuration but defense, deviation and seed."""
    settings: dict[str, list[Record]] = {}
    for record in records:
        setting = {
            key: value for key, value in record.configuration.items() if key not in (Kind.DEFENSE, DEVIATION, "seed")
        }
        settings.setdefault(json.dumps(setting, sort_keys=True), []).append(record)
    return settings


def _cells_of_setting(source: str, records: Sequence[Record], defense: NewDefense) -> Iterator[Cell]:
    """Yield the cells of a defense in one setting, with every seed and every deviation from its transport there."""
    first = records[0]
    chosen = {
        str(kind): Choice(first.labels[kind], first.configuration[kind], first.sweep.get(kind, {}))
        for kind in CHOSEN
        if kind in first.configuration
    }
    created = {kind: choice.create(Kind(kind)) for kind, choice in chosen.items()}
    with error_location(f"{source}: [defense.{defense.label}]"):
        choices = chain_choices(defense.label, defense.chain, defense.parameters, created[Kind.MEASURE])
        if len(choices) > 1:
            raise ParameterError("a row has one value of each parameter, not a list of them")
    chosen[Kind.DEFENSE] = choices[0]
    if not measure_applies(source, chosen, created | {Kind.DEFENSE: choices[0].create(Kind.DEFENSE)}):
        return
    transport = choices[0].configuration.get("transport", {}).get("name")
    ways = {
        json.dumps(way, sort_keys=True): (way, record.labels[DEVIATION])
        for record in records
        if (way := record.configuration.get(DEVIATION)) and way["name"] == transport
    }
    without = {key: value for key, value in first.configuration.items() if key != DEVIATION}
    labels = {key: value for key, value in first.labels.items() if key != DEVIATION} | {"defense": defense.label}
    sweep = {key: value for key, value in first.sweep.items() if key != Kind.DEFENSE}
    for way, name in ways.values() or [({}, "")]:
        for seed in sorted({record.seed for record in records}):
            configuration = without | {"defense": choices[0].configuration, "seed": seed}
            yield Cell(
                configuration | ({DEVIATION: way} if way else {}), labels | ({DEVIATION: name} if way else {}), sweep
            )
