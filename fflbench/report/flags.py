"""Warnings beside a row of a table of robustness."""

from collections.abc import Iterable
from typing import Any

from fflbench.records.record import Record

IN_ROUNDS = {
    "rounds_that_kept_the_model": "there was no usable aggregate and the model was kept",
    "rounds_with_more_attackers_than_f": "more attackers than f were selected",
}
"""Facts that count rounds, and what tables say of them."""


def flags(records: Iterable[Record]) -> tuple[str, ...]:
    """What a reader must know of a row: what its defense reports of its own setting, and what went on in its rounds."""
    told: list[str] = []
    rounds, happened = 0, dict.fromkeys(IN_ROUNDS, 0)
    for record in records:
        said: Any = record.facts.get("flags", [])
        told += [str(flag) for flag in said] if isinstance(said, list) else []
        rounds += len(record.history)
        for fact in happened:
            count = record.facts.get(fact)
            happened[fact] += count if isinstance(count, int) else 0
    told += [f"{IN_ROUNDS[fact]} in {count} of {rounds} rounds" for fact, count in happened.items() if count]
    return tuple(dict.fromkeys(told))
