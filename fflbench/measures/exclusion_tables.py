"""Tables on reputation: whom participants refuse and the server excludes, trust by round, and framed participants."""

import functools
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from fflbench.plugin import Column, FilledColumn, Record, Table, TableCell, record_groups, slug

ROUNDS = (1, 2, 3, 5, 10, 20, 50)
"""Rounds after which trust is shown, besides the last: the first ones, in which it changes most."""

EXCLUSIONS = (
    "Refused: shares of the decisions that honest participants take, over all rounds, by their local reputations. "
    "Excluded: shares of all of that side whom the server does not select after the last round, by global reputations. "
    "Means over seeds."
)
FRAMING = (
    "Framed: honest participants whose own update was finite, and whose row was dropped since their partner's was not. "
    "Lone submissions: rows of attackers who found no partner. Means over seeds."
)
TRUST = "Over all participants of a side, whether or not they submitted an update in that round; means over seeds."

Value = Callable[[Record], Any]


def exclusion_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Yield tables of refusals and exclusions, of framing, and of trust over rounds, where records hold any."""
    for group in record_groups.group_records(records):
        for name, title, columns, note in (
            ("exclusions", "whom honest participants refuse and the server excludes", _exclusion_columns(), EXCLUSIONS),
            ("framing", "framed participants and lone submissions", _framing_columns(group.records), FRAMING),
            ("trust-by-round", "average trust by round", _trust_columns(group.records), TRUST),
        ):
            filled = [FilledColumn(column, _means_of_cells(group, value)) for column, value in columns]
            places = [(attack, row) for attack in group.attacks for row in group.defenses]
            if filled := [each for each in filled if each.cells]:
                yield Table.from_columns(
                    filled,
                    rows=[place for place in places if any(place in each.cells for each in filled)],
                    defense=functools.partial(_defense_of_row, group),
                    name=slug(f"{group.task}-{name}"),
                    title=f"{group.task}: {title}",
                    section=group.measure.section,
                    keys=("attack", "defense"),
                    notes=(note,),
                )


def _defense_of_row(group: record_groups.RecordGroup, key: tuple[str, str]) -> str:
    return group.defenses[key[1]]


def _means_of_cells(group: record_groups.RecordGroup, value: Value) -> dict[tuple[str, str], TableCell]:
    """Return means over seeds by attack and row, where all seeds have a value."""
    cells = {}
    for attack in group.attacks:
        for row in group.defenses:
            done = [record for record in group.runs(row, attack).records.values() if record_groups.is_usable(record)]
            values = [value(record) for record in done]
            if values and all(isinstance(each, int | float) for each in values):
                cells[attack, row] = TableCell(mean=fmean(values)).with_records(done)
    return cells


def _exclusion_columns() -> list[tuple[Column, Value]]:
    return [
        (
            Column(
                name=f"{side}_{what}", title=f"{words} {what}, %", meaning=f"{meaning} {words}.", digits=1, factor=100.0
            ),
            functools.partial(_fact, name=f"share_of_{side}_{what}"),
        )
        for what, meaning in {"refused": "Refusals of", "excluded": "Exclusions of"}.items()
        for side, words in {"attackers": "attackers", "honest": "honest participants"}.items()
    ]


def _framing_columns(records: Sequence[Record]) -> list[tuple[Column, Value]]:
    """Return columns on framed participants and lone submissions, unless there were none in all of these records."""
    if not any(_fact(record, "framed_rows") or _fact(record, "lone_submissions") for record in records):
        return []
    meaning = "Share of honest participants who were framed at least once."
    return [
        (
            Column(
                name="honest_framed", title="honest participants framed, %", meaning=meaning, digits=1, factor=100.0
            ),
            functools.partial(_fact, name="share_of_honest_framed"),
        ),
        (
            Column(name="framed_rows", title="framed rows", meaning="Rows of framed participants.", digits=1),
            functools.partial(_fact, name="framed_rows"),
        ),
        (
            Column(name="lone_submissions", title="lone submissions", meaning="Rows without a partner.", digits=1),
            functools.partial(_fact, name="lone_submissions"),
        ),
        (
            Column(
                name="attackers_in_last_round",
                title="attackers in the last round",
                meaning="Attackers whom the server selects in the last round.",
                digits=1,
            ),
            _attackers_in_last_round,
        ),
    ]


def _fact(record: Record, name: str) -> Any:
    return record.facts.get(name)


def _attackers_in_last_round(record: Record) -> Any:
    return record.history[-1].get("attackers_selected") if record.history and "framed_rows" in record.facts else None


def _trust_columns(records: Sequence[Record]) -> list[tuple[Column, Value]]:
    last = max((len(record.history) for record in records), default=0)
    return [
        (
            Column(
                name=f"{side}_trust_{number}",
                title=f"round {number}: {words}",
                meaning=f"Mean trust of all {words} after round {number}.",
                digits=2,
            ),
            functools.partial(_trust, place=number - 1, side=side),
        )
        for number in sorted({*(number for number in ROUNDS if number < last), last} - {0})
        for side, words in {"attacker": "attackers", "honest": "honest participants"}.items()
    ]


def _trust(record: Record, place: int, side: str) -> Any:
    return record.history[place].get(f"{side}_trust_of_all") if place < len(record.history) else None
