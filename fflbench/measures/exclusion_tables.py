"""Tables on reputation: whom participants refuse and the server excludes, and trust in the first and the last round."""

import functools
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from fflbench.plugin import Column, FilledColumn, Record, Table, TableCell, record_groups, slug

ROUNDS = (1, 2, 3, 5, 10, 20, 50)
"""Rounds after which trust is shown, besides the last: the first ones, in which it changes most."""
ATTACKER = "attacker"
SIDES = {ATTACKER: "attackers", "honest": "honest participants"}

EXCLUSIONS = (
    "Refused: shares of the decisions that honest participants take, over all rounds, by their local reputations. "
    "Excluded: shares of all of that side whom the server does not select after the last round, by global reputations. "
    "Means over seeds."
)
TRUST = "Over all participants of a side, whether or not they submitted an update in that round; means over seeds."

Value = Callable[[Record], Any]


def exclusion_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Yield tables of refusals and exclusions, and of trust over rounds, where records hold any."""
    for group in record_groups.group_records(records):
        for name, title, columns, note in (
            ("exclusions", "whom honest participants refuse and the server excludes", _exclusion_columns(), EXCLUSIONS),
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
    refused = [
        (
            _share_column(f"{side}_refused", f"{words} refused", f"Refusals of {words} by honest participants."),
            functools.partial(_share_refused, side=side),
        )
        for side, words in SIDES.items()
    ]
    excluded = [
        (
            _share_column(f"{side}_excluded", f"{words} excluded", f"Share of {words} that the server excludes."),
            functools.partial(_share_excluded, side=side),
        )
        for side, words in SIDES.items()
    ]
    return [*refused, *excluded]


def _share_column(name: str, title: str, meaning: str) -> Column:
    return Column(name=name, title=f"{title}, %", meaning=meaning, digits=1, factor=100.0)


def _share_refused(record: Record, side: str) -> Any:
    return record.facts.get(f"share_of_{'attackers' if side == ATTACKER else side}_refused")


def _share_excluded(record: Record, side: str) -> float | None:
    """Return the share of a side that the server excludes at the end, to compare with refusals; None without those."""
    if "excluded" not in record.facts or _share_refused(record, "honest") is None:
        return None
    hostile = set(record.facts["attackers"])
    everyone = range(record.configuration["task"]["parameters"]["participants"])
    own = {who for who in everyone if (who in hostile) == (side == ATTACKER)}
    return len(own.intersection(record.facts["excluded"])) / len(own) if own else None


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
        for number in [*(number for number in ROUNDS if number < last), last]
        for side, words in SIDES.items()
    ]


def _trust(record: Record, place: int, side: str) -> Any:
    return record.history[place].get(f"{side}_trust_of_all") if place < len(record.history) else None
