"""Warnings beside a row of a table of robustness."""

from collections.abc import Iterable

from fflbench.records.record import Record

IN_ROUNDS = {
    "rounds_that_kept_the_model": "there was no usable aggregate and the model was kept",
    "rounds_with_more_attackers_than_f": "more attackers than f were selected",
}
"""Facts that count rounds, and what tables say of them."""


def flags(records: Iterable[Record]) -> tuple[str, ...]:
    """Return what a defense reports of its own setting in these records, and what happened in their rounds."""
    done = [record for record in records if record.status == "done"]
    notes = [flag for record in done for flag in record.facts.get("flags", [])]
    rounds = sum(len(record.history) for record in done)
    for fact, meaning in IN_ROUNDS.items():
        if count := sum(record.facts.get(fact) or 0 for record in done):
            notes.append(f"{meaning} in {count} of {rounds} rounds")
    return tuple(dict.fromkeys(notes))
