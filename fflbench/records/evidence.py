"""Records as evidence: all of a leaderboard or of a run, and what of them can be trusted."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.errors import RecordError
from fflbench.reading import read_bytes, read_json
from fflbench.records import arrays, packed, validation
from fflbench.records.arrays import Arrays
from fflbench.records.packed import ENTRIES
from fflbench.records.parts import CHAIN, chained
from fflbench.records.record import Record
from fflbench.records.store import Store, read, read_arrays
from fflbench.texts import slug

SUBMITTED, ENTRY = "records", "entry.json"
"""In an entry from outside: a folder with a file for each record, unless all are in one, and a file about the entry."""
LARGEST_ENTRY = 2**20
"""Bytes that are read of that file."""


class Entry(BaseModel):
    """What an entry from outside says of itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[\w][\w.+ -]*$", max_length=80)
    """Of the plugin, as it is registered, or of a chain of several."""
    link: str = Field(pattern=r"^https?://[!-~]+$", max_length=300)
    citation: str = Field(max_length=500)
    verified: tuple[str, ...] = ()
    """Cells that were run again here and came out the same."""

    @property
    def origin(self) -> str:
        """What a reader must be told of its rows."""
        how = "reported, not run again" if not self.verified else f"reported; {len(self.verified)} cells run again"
        return f"{how} ({self.name}, {self.link}, {self.citation})"


@dataclass(frozen=True)
class Place:
    """Where a record stands."""

    folder: Path
    """A leaderboard, an entry or a run."""
    name: str
    """Its file, with its line if there are several in it."""
    arrays: Path
    """The file of its arrays, if it has any."""


@dataclass
class Evidence:
    """What a folder holds, and what is wrong with it."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reported: dict[str, str] = field(default_factory=dict)
    """Cells that came from outside, with their origin."""
    places: dict[str, Place] = field(default_factory=dict)
    shared_by: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """By cell, defenses from outside that share a record of ours, as records have them."""

    @property
    def shown(self) -> list[Record]:
        """Records as tables show them: ours under the labels, too, of defenses from outside that share them."""
        return [
            record.model_copy(update={"shared_by": record.shared_by | self.shared_by[record.id]})
            if record.id in self.shared_by
            else record
            for record in self.records
        ]

    @property
    def suite(self) -> str:
        """The suite that most records are of."""
        return Counter(record.suite for record in self.records).most_common(1)[0][0]

    def arrays(self, record: Record) -> Arrays:
        """The arrays beside a record."""
        return read_arrays(self.places[record.id].arrays, record)


def gather(folder: Path) -> Evidence:
    """All records of a leaderboard, or of a folder that `fflbench run` wrote; damaged ones are told and left out."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}")
    found = Evidence(folder)
    _take(found, folder)
    _take_entries(found, folder)
    found.records.sort(key=_order)
    if not found.records:
        told = f": {found.problems[0]}" if found.problems else ""
        raise RecordError(f"there is no record in {folder}{told}")
    return found


def _take_entries(found: Evidence, folder: Path) -> None:
    for entry_folder in sorted(path for path in (folder / ENTRIES).glob("[!.]*") if path.is_dir()):
        try:
            entry = read_entry(entry_folder)
        except RecordError as error:
            found.problems.append(f"{error}; the entry is left out")
            continue
        if not packed.is_there(entry_folder):
            found.problems.append(f"{entry_folder / packed.FILE} is missing; the entry is left out")
            continue
        theirs = Evidence(entry_folder)
        _take(theirs, entry_folder)
        found.problems += theirs.problems
        ours = found.shown
        fitting = []
        for record in theirs.records:
            if why := _misfit(record, entry, ours):
                found.problems.append(f"{theirs.places[record.id].name} {why}; it is left out")
            else:
                fitting.append(record)
        _add(found, replace(theirs, records=fitting), entry)


def _add(found: Evidence, theirs: Evidence, entry: Entry) -> None:
    """Add records from outside; of a cell that is there already, only that their defense shares it."""
    for record in theirs.records:
        if record.id in found.places:
            sweep = record.sweep.get("defense", {})
            own = {record.labels["defense"]: sweep, **record.shared_by}
            found.shared_by[record.id] = found.shared_by.get(record.id, {}) | own
        else:
            found.records.append(record)
            found.places[record.id] = theirs.places[record.id]
            found.reported[record.id] = entry.origin


def _order(record: Record) -> tuple[object, ...]:
    """Tasks and measures by name; without attack before with one, FedAvg before others; then by name."""
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


def _take(found: Evidence, folder: Path, *, digest_required: bool = False) -> None:
    for place, record in _readings(found, folder, digest_required=digest_required):
        if record.id in found.places:
            found.problems.append(f"{place.name} is the record of a cell that is there already; it is left out")
            continue
        try:
            read_arrays(place.arrays, record)
        except RecordError as error:
            found.problems.append(f"{error}; its record is left out")
            continue
        found.records.append(record)
        found.places[record.id] = place


def _readings(found: Evidence, folder: Path, *, digest_required: bool) -> Iterator[tuple[Place, Record]]:
    """Return the records of a folder, packed or in a file each; problems with others are added to the evidence."""
    if packed.is_there(folder):
        file = folder / packed.FILE
        try:
            records, problems = packed.read(file)
        except RecordError as error:
            found.problems.append(f"{error}; no record in it counts")
            return
        found.problems += problems
        for name, record in records:
            yield Place(folder, name, packed.arrays_file(file, record)), record
        return
    store = Store(folder)
    for file in sorted(folder.glob("*.json")):
        try:
            record = read(file, digest_required=digest_required)
        except RecordError as error:
            found.problems.append(f"{error}; it is left out")
        else:
            yield Place(folder, str(file), store.arrays_file(record.id)), record


def own_files(found: Evidence, board: Path) -> dict[str, bytes]:
    """Return the file of records that were run here, and those of their arrays, by their path in a leaderboard."""
    return _files(found, [record for record in found.records if record.id not in found.reported], board, "")


def _files(found: Evidence, records: list[Record], board: Path, into: str) -> dict[str, bytes]:
    """Return the file of records, in their order, and those of their arrays, by path in a leaderboard."""
    made = {
        f"{into}{packed.ARRAYS}/{record.id}.npz": read_bytes(found.places[record.id].arrays, arrays.LARGEST)
        for record in records
        if record.arrays
    }
    return made | {f"{into}{packed.FILE}": packed.write(records, board / into / packed.FILE)}


def moved(found: Evidence, board: Path) -> Evidence:
    """The records of `found` that were run here, beside the entries from outside of another leaderboard."""
    own = [record for record in found.records if record.id not in found.reported]
    places = {record.id: found.places[record.id] for record in own}
    joined = Evidence(board, own, found.problems, {}, places)
    _take_entries(joined, board)
    joined.records.sort(key=_order)
    return joined


def read_entry(folder: Path) -> Entry:
    """What an entry says of itself."""
    file = folder / ENTRY
    content = read_json(file, LARGEST_ENTRY)
    try:
        return Entry.model_validate(content)
    except ValidationError as error:
        raise RecordError(f"{file}: {validation.first_problem(error)}") from error


def accept(source: Path, ours: Evidence) -> tuple[Evidence, dict[str, bytes]]:
    """Take an entry from outside into a leaderboard's evidence: all of it, or nothing. No code of it runs.

    Returns the evidence with the entry, and the files by which the entry will stand in the leaderboard.
    """
    entry = read_entry(source)
    if entry.verified:
        raise RecordError(f"{source / ENTRY}: verified is for those who run it again, not for those who report it")
    in_one = packed.is_there(source)
    if in_one and os.path.lexists(source / SUBMITTED):
        raise RecordError(f"the entry is not taken: {source} has both {packed.FILE} and {SUBMITTED}/: leave out one")
    theirs = Evidence(source)
    _take(theirs, source if in_one else source / SUBMITTED, digest_required=True)
    if theirs.problems:
        raise RecordError(f"the entry is not taken: {theirs.problems[0]}")
    if not theirs.records:
        raise RecordError(f"the entry is not taken: there is no record in {source}")
    for record in theirs.records:
        if why := _misfit(record, entry, ours.shown):
            raise RecordError(f"the entry is not taken: {record} {why}")
    into = f"{ENTRIES}/{slug(entry.name)}/"
    if os.path.lexists(ours.folder / into / ENTRY):
        raise RecordError(f"the entry is not taken: {ours.folder / into} is there already")
    files = _files(theirs, sorted(theirs.records, key=_order), ours.folder, into)
    # Last, so that a folder without it is of a command that was killed, and no entry yet.
    files[f"{into}{ENTRY}"] = read_bytes(source / ENTRY, LARGEST_ENTRY)
    joined = replace(
        ours,
        records=list(ours.records),
        places=dict(ours.places),
        reported=dict(ours.reported),
        shared_by=dict(ours.shared_by),
    )
    _add(joined, theirs, entry)
    joined.records.sort(key=_order)
    return joined, files


def _misfit(record: Record, entry: Entry, ours: list[Record]) -> str:
    """Why a record from outside cannot stand beside ours: it may add a defense, and change nothing else."""
    known = record.id in {own.id for own in ours}
    whole = set(record.configuration["defense"]) == set(CHAIN)
    if known and whole:
        return "is there already"
    if not known and entry.name not in (
        record.defense,
        *(part.name for part in chained(record.configuration["defense"])),
    ):
        return f"is not about the defense {entry.name}"
    if taken := _defenses(record) & {label for own in ours for label in _defenses(own)}:
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
        return "says otherwise of its attack's aim than our records do"
    return ""


def _defenses(record: Record) -> set[str]:
    return {record.labels["defense"], *record.shared_by}
