"""Records of a leaderboard or a run, with the problems of those that cannot be trusted."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.errors import RecordError
from fflbench.records import jsonl_file, npz_file, validation
from fflbench.records.cell_configuration import CHAIN, defense_parts
from fflbench.records.jsonl_file import ENTRIES
from fflbench.records.npz_file import Arrays
from fflbench.records.record import Record
from fflbench.records.store import Store, read_arrays, read_record
from fflbench.safe_texts import slug
from fflbench.untrusted_files import read_bytes, read_json

SUBMITTED, ENTRY = "records", "entry.json"
"""Folder of records in an entry from outside, unless all are in one file, and the file about the entry."""
LARGEST_ENTRY = 2**20
"""Most bytes of the file about an entry."""


class LeaderboardEntry(BaseModel):
    """Description of an entry from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[\w][\w.+ -]*$", max_length=80)
    """Registered name of the plugin, or of a chain of several, or the name of its row."""
    link: str = Field("", pattern=r"^(https?://[!-~]+)?$", max_length=300)
    citation: str = Field("", max_length=500)
    verified: tuple[str, ...] = ()
    """Cells that were run again here with the same result."""

    @property
    def origin(self) -> str:
        """Note that tables show about its rows."""
        how = "reported, not run again" if not self.verified else f"reported; {len(self.verified)} cells run again"
        return f"{how} ({', '.join(filter(None, (self.name, self.link, self.citation)))})"


@dataclass(frozen=True)
class RecordLocation:
    """Location of a record."""

    folder: Path
    """Folder of the leaderboard, entry or run."""
    name: str
    """Its file, with its line if the file holds several."""
    arrays: Path
    """File of its arrays, if it has any."""


@dataclass
class RecordCollection:
    """Records of a folder, and the problems of those that are left out."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reported: dict[str, str] = field(default_factory=dict)
    """Cells that came from outside, with their origin."""
    places: dict[str, RecordLocation] = field(default_factory=dict)
    shared_by: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Defenses from outside that share a record that was run here, by cell, in the form that records have."""

    @property
    def displayed_records(self) -> list[Record]:
        """Records as tables show them: ours also under the labels of defenses from outside that share them."""
        return [
            record.model_copy(update={"shared_by": record.shared_by | dict(sorted(self.shared_by[record.id].items()))})
            if record.id in self.shared_by
            else record
            for record in self.records
        ]

    @property
    def suite(self) -> str:
        """Suite of most records."""
        return Counter(record.suite for record in self.records).most_common(1)[0][0]

    def arrays(self, record: Record) -> Arrays:
        """Return the arrays of a record."""
        return read_arrays(self.places[record.id].arrays, record)


def read_collection(folder: Path) -> RecordCollection:
    """Return all records of a leaderboard or of a run's folder; damaged ones are reported and left out."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}")
    collection = RecordCollection(folder)
    _read_checked_records(collection, folder)
    _add_outside_entries(collection, folder)
    collection.records.sort(key=record_sort_key)
    if not collection.records:
        reason = f": {collection.problems[0]}" if collection.problems else ""
        raise RecordError(f"there is no record in {folder}{reason}")
    return collection


def _add_outside_entries(collection: RecordCollection, folder: Path) -> None:
    for entry_folder in sorted(path for path in (folder / ENTRIES).glob("[!.]*") if path.is_dir()):
        try:
            entry = read_entry(entry_folder)
        except RecordError as error:
            collection.problems.append(f"{error}; the entry is left out")
            continue
        if not jsonl_file.has_records_file(entry_folder):
            collection.problems.append(f"{entry_folder / jsonl_file.FILE} is missing; the entry is left out")
            continue
        theirs = RecordCollection(entry_folder)
        _read_checked_records(theirs, entry_folder)
        collection.problems += theirs.problems
        ours = collection.displayed_records
        fitting = []
        for record in theirs.records:
            if why := _reason_to_refuse(record, entry, ours):
                collection.problems.append(f"{theirs.places[record.id].name} {why}; it is left out")
            else:
                fitting.append(record)
        _add_outside_records(collection, replace(theirs, records=fitting), entry)


def _add_outside_records(collection: RecordCollection, theirs: RecordCollection, entry: LeaderboardEntry) -> None:
    """Add records from outside; a cell that is present already is only marked as shared by their defense."""
    for record in theirs.records:
        if record.id in collection.places:
            sweep = record.sweep.get("defense", {})
            own = {record.labels["defense"]: sweep, **record.shared_by}
            collection.shared_by[record.id] = collection.shared_by.get(record.id, {}) | own
        else:
            collection.records.append(record)
            collection.places[record.id] = theirs.places[record.id]
            collection.reported[record.id] = entry.origin


def record_sort_key(record: Record) -> tuple[object, ...]:
    """Return the sort key of a record: task and measure by name, no attack first, FedAvg first, then by name."""
    labels, chosen = record.labels, record.configuration
    attack = chosen.get("attack", {}).get("name", "")
    return (
        labels["task"],
        record.measure,
        attack != "none",
        labels.get("attack", labels.get("privacy-attack", "")),
        "fedavg" not in (record.defense, labels["defense"]),
        labels["defense"],
        labels.get("deviation", ""),
        str(chosen["measure"]["parameters"]),
        record.seed,
        record.id,
    )


def _read_checked_records(collection: RecordCollection, folder: Path, *, digest_required: bool = False) -> None:
    for place, record in _read_records(collection, folder, digest_required=digest_required):
        if record.id in collection.places:
            collection.problems.append(f"{place.name} is the record of a cell that is there already; it is left out")
            continue
        try:
            read_arrays(place.arrays, record)
        except RecordError as error:
            collection.problems.append(f"{error}; its record is left out")
            continue
        collection.records.append(record)
        collection.places[record.id] = place


def _read_records(
    collection: RecordCollection, folder: Path, *, digest_required: bool
) -> Iterator[tuple[RecordLocation, Record]]:
    """Return the records of a folder, packed or in a file each; problems with others are added to the collection."""
    if jsonl_file.has_records_file(folder):
        file = folder / jsonl_file.FILE
        try:
            records, problems = jsonl_file.read_records(file)
        except RecordError as error:
            collection.problems.append(f"{error}; no record in it counts")
            return
        collection.problems += problems
        for name, record in records:
            yield RecordLocation(folder, name, jsonl_file.arrays_file(file, record)), record
        return
    store = Store(folder)
    for file in sorted(folder.glob("*.json")):
        try:
            record = read_record(file, digest_required=digest_required)
        except RecordError as error:
            collection.problems.append(f"{error}; it is left out")
        else:
            yield RecordLocation(folder, str(file), store.arrays_file(record.id)), record


def pack_own_records(collection: RecordCollection, board: Path) -> dict[str, bytes]:
    """Return the file of records that were run here, and those of their arrays, by their path in a leaderboard."""
    own = [record for record in collection.records if record.id not in collection.reported]
    return _files_of_records(collection, own, board, "")


def _files_of_records(
    collection: RecordCollection, records: list[Record], board: Path, subfolder: str
) -> dict[str, bytes]:
    """Return the file of records, in their order, and those of their arrays, by path in a leaderboard."""
    made = {
        f"{subfolder}{jsonl_file.ARRAYS}/{record.id}.npz": read_bytes(
            collection.places[record.id].arrays, npz_file.LARGEST
        )
        for record in records
        if record.arrays
    }
    return made | {
        f"{subfolder}{jsonl_file.FILE}": jsonl_file.pack_records(records, board / subfolder / jsonl_file.FILE)
    }


def with_outside_entries(collection: RecordCollection, board: Path) -> RecordCollection:
    """Return the records that were run here together with the entries from outside of another leaderboard."""
    own = [record for record in collection.records if record.id not in collection.reported]
    places = {record.id: collection.places[record.id] for record in own}
    joined = RecordCollection(board, own, collection.problems, {}, places)
    _add_outside_entries(joined, board)
    joined.records.sort(key=record_sort_key)
    return joined


def read_entry(folder: Path) -> LeaderboardEntry:
    """Return the description of an entry from outside."""
    file = folder / ENTRY
    content = read_json(file, LARGEST_ENTRY)
    try:
        return LeaderboardEntry.model_validate(content)
    except ValidationError as error:
        raise RecordError(f"{file}: {validation.first_problem(error)}") from error


def entry_subfolder(name: str) -> str:
    """Return the folder of an entry in its leaderboard."""
    return f"{ENTRIES}/{slug(name)}/"


def add_entry(entry_folder: Path, collection: RecordCollection) -> tuple[RecordCollection, dict[str, bytes]]:
    """Add an entry from outside to a leaderboard's collection, all of it or nothing, without running its code.

    Return the collection with the entry, and the entry's files in the leaderboard.
    """
    entry = read_entry(entry_folder)
    if entry.verified:
        raise RecordError(
            f"{entry_folder / ENTRY}: verified is for those who run it again, not for those who report it"
        )
    in_one = jsonl_file.has_records_file(entry_folder)
    if in_one and os.path.lexists(entry_folder / SUBMITTED):
        raise RecordError(
            f"the entry is not taken: {entry_folder} has both {jsonl_file.FILE} and {SUBMITTED}/: leave out one"
        )
    theirs = RecordCollection(entry_folder)
    _read_checked_records(theirs, entry_folder if in_one else entry_folder / SUBMITTED, digest_required=True)
    if theirs.problems:
        raise RecordError(f"the entry is not taken: {theirs.problems[0]}")
    if not theirs.records:
        raise RecordError(f"the entry is not taken: there is no record in {entry_folder}")
    for record in theirs.records:
        if why := _reason_to_refuse(record, entry, collection.displayed_records):
            raise RecordError(f"the entry is not taken: {record} {why}")
    into = entry_subfolder(entry.name)
    if os.path.lexists(collection.folder / into / ENTRY):
        raise RecordError(f"the entry is not taken: {collection.folder / into} is there already")
    files = _files_of_records(theirs, sorted(theirs.records, key=record_sort_key), collection.folder, into)
    # Written last: a folder without it was left by a command that was killed, and is no entry.
    files[f"{into}{ENTRY}"] = read_bytes(entry_folder / ENTRY, LARGEST_ENTRY)
    joined = replace(
        collection,
        records=list(collection.records),
        places=dict(collection.places),
        reported=dict(collection.reported),
        shared_by=dict(collection.shared_by),
    )
    _add_outside_records(joined, theirs, entry)
    joined.records.sort(key=record_sort_key)
    return joined, files


def _reason_to_refuse(record: Record, entry: LeaderboardEntry, ours: list[Record]) -> str:
    """Return the reason to refuse a record from outside, which may add a defense and change nothing else, or ""."""
    known = record.id in {own.id for own in ours}
    whole = set(record.configuration["defense"]) == set(CHAIN)
    if known and whole:
        return "is there already"
    if not known and entry.name not in (
        record.labels["defense"],
        record.defense,
        *(part.name for part in defense_parts(record.configuration["defense"])),
    ):
        return f"is not about the defense {entry.name}"
    if taken := defense_labels(record) & {label for own in ours for label in defense_labels(own)}:
        return f'calls its defense "{min(taken)}", a name that is taken'
    kinds = [kind for kind in ("task", "attack", "privacy-attack", "measure") if kind in record.configuration]
    alike = [
        own
        for own in ours
        if all(
            own.configuration.get(kind) == record.configuration[kind]
            and own.labels.get(kind) == record.labels[kind]
            and own.sweep.get(kind) == record.sweep.get(kind)
            for kind in kinds
        )
    ]
    if not any(own.configuration["seed"] == record.configuration["seed"] for own in alike):
        return "is a cell that no defense of ours has: task, attack, measure and seed must be of this leaderboard"
    done = [own for own in alike if own.status == "done"]
    if record.status == "done" and done and record.facts.get("targeted") != done[0].facts.get("targeted"):
        return "declares another aim of its attack than our records do"
    return ""


def defense_labels(record: Record) -> set[str]:
    """Return the labels of all defenses that share a record."""
    return {record.labels["defense"], *record.shared_by}
