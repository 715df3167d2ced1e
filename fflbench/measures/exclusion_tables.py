"""Tables on reputation: whom participants refuse and the server excludes, trust in attackers, framed participants."""

import functools
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from fflbench.plugin import Column, FilledColumn, Record, Table, TableCell, record_groups, slug

ROUNDS = (1, 2, 3, 5, 10, 20, 50)
"""Rounds after which trust is shown, besides the last: the first ones, in which it changes most."""
EARLY = 10
"""First rounds that are shown apart, in which reputations are formed."""
SIDES = {"attackers": "attackers", "honest": "honest participants"}
"""Sides of participants, with words for them."""

EXCLUSIONS = (
    "Refused: shares of the decisions that honest participants take, over all rounds, by their local reputations. "
    "Excluded: shares of all of that side whom the server does not select after the last round, by global reputations. "
    "Means over seeds."
)
TRUST = (
    "From 0 to 1, over all participants of a side, whether or not they submitted an update in that round; means over "
    "seeds."
)
TRUSTED = (
    "Share of trust: what attackers have of the trust in all whose updates arrived, by which the server weights them "
    "after a warm-up, if any (equal weights where nobody is trusted); its mean over rounds. Relative trust: mean trust "
    "of all attackers over that of all honest participants. Excluded: below the first quartile of reputation, mean "
    "over rounds. Means over seeds."
)
FRAMING = (
    "Framed: honest participants whose own update was finite, and whose row was dropped since attackers made it NaN "
    "or infinite. Lone submissions: rows that attackers submitted alone. Victims: whom attackers chose. "
    "Means over seeds."
)

Key = tuple[str, ...]
Value = Callable[[Record], Any]


def exclusion_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Yield tables of refusals and exclusions, trust in attackers, framing, and trust by round, where there are any."""
    for group in record_groups.group_records(records):
        for name, title, columns, more_keys, note in (
            (
                "exclusions",
                "whom honest participants refuse and the server excludes",
                _exclusions(group),
                (),
                EXCLUSIONS,
            ),
            ("trust-in-attackers", "trust in attackers", _trust_in_attackers(group), (), TRUSTED),
            ("framing", "framed participants and lone submissions", _framing(group), (), FRAMING),
            ("trust-by-round", "average trust by round", _trust_by_round(group), ("participants",), TRUST),
        ):
            if filled := [each for each in columns if each.cells]:
                known = {key for each in filled for key in each.cells}
                places = ((*place, *more) for place in _places(group) for more in ((), *((side,) for side in SIDES)))
                yield Table.from_columns(
                    filled,
                    rows=[key for key in places if key in known],
                    defense=functools.partial(_defense_of_row, group),
                    name=slug(f"{group.task}-{name}"),
                    title=f"{group.task}: {title}",
                    section=group.measure.section,
                    keys=("attack", "defense", *more_keys),
                    notes=(note,),
                )


def _defense_of_row(group: record_groups.RecordGroup, key: Key) -> str:
    return group.defenses[key[1]]


def _places(group: record_groups.RecordGroup) -> dict[Key, list[Record]]:
    """Return usable records by attack, as other tables name it, and by row."""
    return {
        ("no attack" if attack == group.no_attack else attack, row): [
            record for record in group.runs(row, attack).records.values() if record_groups.is_usable(record)
        ]
        for attack in group.attacks
        for row in group.defenses
    }


def _exclusions(group: record_groups.RecordGroup) -> Iterable[FilledColumn]:
    for what, meaning in {"refused": "Refusals of", "excluded": "Exclusions of"}.items():
        for side, words in SIDES.items():
            column = Column(
                name=f"{side}_{what}", title=f"{words} {what} %", meaning=f"{meaning} {words}.", digits=1, factor=100.0
            )
            yield FilledColumn(column, _means(group, functools.partial(_fact, name=f"share_of_{side}_{what}")))


def _trust_by_round(group: record_groups.RecordGroup) -> Iterable[FilledColumn]:
    last = max((len(record.history) for record in group.records), default=0)
    for number in sorted({*(number for number in ROUNDS if number < last), last} - {0}):
        cells: dict[Key, TableCell] = {}
        for side in SIDES:
            cells |= _means(group, functools.partial(_trust, number=number, side=side), side)
        column = Column(name=f"round_{number}", title=f"round {number}", meaning=f"Mean trust after round {number}.")
        yield FilledColumn(column, cells)


def _trust_in_attackers(group: record_groups.RecordGroup) -> Iterable[FilledColumn]:
    """Yield columns of accuracy, trust in attackers and excluded honest participants, at first and in all rounds."""
    longest = max((len(record.history) for record in group.records), default=0)
    early = [(f"first_{EARLY}", f"first {EARLY} rounds", EARLY)] if longest > EARLY else []
    for title, value, unit in (
        ("accuracy %", _accuracy, 100.0),
        ("attackers' share of trust %", _share_of_trust, 100.0),
        ("attackers' relative trust %", _relative_trust, 100.0),
        ("honest participants excluded", _honest_excluded, 1.0),
    ):
        for name, words, rounds in (*early, ("all", "all rounds", None)):
            column = Column(
                name=f"{value.__name__.strip('_')}_{name}",
                title=f"{title}, {words}",
                meaning=f"{title.removesuffix(' %')[0].upper()}{title.removesuffix(' %')[1:]}, {words}.",
                digits=1,
                factor=unit,
            )
            yield FilledColumn(column, _means(group, functools.partial(value, rounds=rounds)))


def _framing(group: record_groups.RecordGroup) -> Iterable[FilledColumn]:
    """Yield columns on framed participants, lone submissions and victims, unless there were none in all records."""
    counted = ("framed_rows", "lone_submissions", "victims")
    if not any(_fact(record, name) for record in group.records for name in counted):
        return
    meaning = "Share of honest participants who were framed at least once."
    framed = Column(name="honest_framed", title="honest participants framed %", meaning=meaning, digits=1, factor=100.0)
    yield FilledColumn(framed, _means(group, functools.partial(_fact, name="share_of_honest_framed")))
    for name, title, meaning in (
        ("framed_rows", "framed rows", "Rows of framed participants."),
        ("lone_submissions", "lone submissions", "Rows that attackers submitted alone."),
    ):
        column = Column(name=name, title=title, meaning=meaning, digits=1)
        yield FilledColumn(column, _means(group, functools.partial(_fact, name=name)))
    for side in ("victims", "other_honest"):
        words = {"victims": "victims", "other_honest": "other honest participants"}[side]
        meaning = f"Share of {words} whom the server does not select after the last round."
        column = Column(name=f"{side}_excluded", title=f"{words} excluded %", meaning=meaning, digits=1, factor=100.0)
        yield FilledColumn(column, _means(group, functools.partial(_fact, name=f"share_of_{side}_excluded")))
    meaning = "Attackers whom the server selects in the last round."
    last = Column(name="attackers_in_last_round", title="attackers in the last round", meaning=meaning, digits=1)
    yield FilledColumn(last, _means(group, _attackers_in_last_round))


def _fact(record: Record, name: str) -> Any:
    return record.facts.get(name)


def _trust(record: Record, number: int, side: str) -> Any:
    key = f"{side.removesuffix('s')}_trust_of_all"
    return record.history[number - 1].get(key) if number <= len(record.history) else None


def _accuracy(record: Record, rounds: int | None) -> Any:
    """Return the final accuracy, or that of the last evaluated model of the first rounds, where there is trust."""
    if not record.history or "trust" not in record.history[-1]:
        return None
    known = [item["accuracy"] for item in record.history[:rounds] if item.get("accuracy") is not None]
    return record.metrics.get("accuracy") if rounds is None else known[-1] if known else None


def _share_of_trust(record: Record, rounds: int | None) -> Any:
    """Return the attackers' share of the trust in senders, of which each counts alike where nobody is trusted."""
    attackers, shares = {str(who) for who in record.facts.get("attackers", ())}, []
    for item in record.history[:rounds]:
        trust = item.get("trust") or {}
        trust = trust if any(trust.values()) else dict.fromkeys(trust, 1.0)
        if trust:
            shares.append(sum(value for who, value in trust.items() if who in attackers) / sum(trust.values()))
    return fmean(shares) if attackers and shares else None


def _relative_trust(record: Record, rounds: int | None) -> Any:
    attackers, honest = (
        sum(item.get(f"{side}_trust_of_all") or 0.0 for item in record.history[:rounds])
        for side in ("attacker", "honest")
    )
    return attackers / honest if record.facts.get("attackers") and honest else None


def _honest_excluded(record: Record, rounds: int | None) -> Any:
    attackers = set(record.facts.get("attackers", ()))
    counts = [len(set(item["excluded"]) - attackers) for item in record.history[:rounds] if "excluded" in item]
    return fmean(counts) if counts else None


def _attackers_in_last_round(record: Record) -> Any:
    return record.history[-1].get("attackers_selected") if record.history and "framed_rows" in record.facts else None


def _means(group: record_groups.RecordGroup, value: Value, *more_keys: str) -> dict[Key, TableCell]:
    """Return means over seeds by attack and row, where all seeds have a value."""
    cells = {}
    for place, records in _places(group).items():
        values = [value(record) for record in records]
        if values and all(isinstance(each, int | float) for each in values):
            cells[*place, *more_keys] = TableCell(mean=fmean(values)).with_records(records)
    return cells
