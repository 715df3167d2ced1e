"""Records of a leaderboard or a run, with the problems of those that cannot be trusted."""

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
"""Folder of records in an entry from outside, unless all are in one file, and the file about the entry."""
LARGEST_ENTRY = 2**20
"""Most bytes of the file about an entry."""


class Entry(BaseModel):
    """Description of an entry from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[\w][\w.+ -]*$", max_length=80)
    """Registered name of the plugin, or of a chain of several."""
    link: str = Field(pattern=r"^https?://[!-~]+$", max_length=300)
    citation: str = Field(max_length=500)
    verified: tuple[str, ...] = ()
    """Cells that were run again here with the same result."""

    @property
    def origin(self) -> str:
        """Note that tables show about its rows."""
        how = "reported, not run again" if not self.verified else f"reported; {len(self.verified)} cells run again"
        return f"{how} ({self.name}, {self.link}, {self.citation})"


@dataclass(frozen=True)
class Place:
    """Location of a record."""

    folder: Path
    """Folder of the leaderboard, entry or run."""
    name: str
    """Its file, with its line if the file holds several."""
    arrays: Path
    """File of its arrays, if it has any."""


@dataclass
class Evidence:
    """Records of a folder, and the problems of those that are left out."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reported: dict[str, str] = field(default_factory=dict)
    """Cells that came from outside, with their origin."""
    places: dict[str, Place] = field(default_factory=dict)
    shared_by: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Defenses from outside that share a record of ours, by cell, in the form that records have."""

    @property
    def shown(self) -> list[Record]:
        """Records as tables show them: ours also under the labels of defenses from outside that share them."""
        return [
            record.model_copy(update={"shared_by": record.shared_by | self.shared_by[record.id]})
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


def gather(folder: Path) -> Evidence:
    """Return all records of a leaderboard or of a run's folder; damaged ones are reported and left out."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}")
    evidence = Evidence(folder)
    _take(evidence, folder)
    _take_entries(evidence, folder)
    evidence.records.sort(key=_order)
    if not evidence.records:
        reason = f": {evidence.problems[0]}" if evidence.problems else ""
        raise RecordError(f"there is no record in {folder}{reason}")
    return evidence


def _take_entries(evidence: Evidence, folder: Path) -> None:
    for entry_folder in sorted(path for path in (folder / ENTRIES).glob("[!.]*") if path.is_dir()):
        try:
            entry = read_entry(entry_folder)
        except RecordError as error:
            evidence.problems.append(f"{error}; the entry is left out")
            continue
        if not packed.is_there(entry_folder):
            evidence.problems.append(f"{entry_folder / packed.FILE} is missing; the entry is left out")
            continue
        theirs = Evidence(entry_folder)
        _take(theirs, entry_folder)
        evidence.problems += theirs.problems
        ours = evidence.shown
        fitting = []
        for record in theirs.records:
            if why := _misfit(record, entry, ours):
                evidence.problems.append(f"{theirs.places[record.id].name} {why}; it is left out")
            else:
                fitting.append(record)
        _add(evidence, replace(theirs, records=fitting), entry)


def _add(evidence: Evidence, theirs: Evidence, entry: Entry) -> None:
    """Add records from outside; a cell that is present already is only marked as shared by their defense."""
    for record in theirs.records:
        if record.id in evidence.places:
            sweep = record.sweep.get("defense", {})
            own = {record.labels["defense"]: sweep, **record.shared_by}
            evidence.shared_by[record.id] = evidence.shared_by.get(record.id, {}) | own
        else:
            evidence.records.append(record)
            evidence.places[record.id] = theirs.places[record.id]
            evidence.reported[record.id] = entry.origin


def _order(record: Record) -> tuple[object, ...]:
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


def _take(evidence: Evidence, folder: Path, *, digest_required: bool = False) -> None:
    for place, record in _readings(evidence, folder, digest_required=digest_required):
        if record.id in evidence.places:
            evidence.problems.append(f"{place.name} is the record of a cell that is there already; it is left out")
            continue
        try:
            read_arrays(place.arrays, record)
        except RecordError as error:
            evidence.problems.append(f"{error}; its record is left out")
            continue
        evidence.records.append(record)
        evidence.places[record.id] = place


def _readings(evidence: Evidence, folder: Path, *, digest_required: bool) -> Iterator[tuple[Place, Record]]:
    """Return the records of a folder, packed or in a file each; problems with others are added to the evidence."""
    if packed.is_there(folder):
        file = folder / packed.FILE
        try:
            records, problems = packed.read(file)
        except RecordError as error:
            evidence.problems.append(f"{error}; no record in it counts")
            return
        evidence.problems += problems
        for name, record in records:
            yield Place(folder, name, packed.arrays_file(file, record)), record
        return
    store = Store(folder)
    for file in sorted(folder.glob("*.json")):
        try:
            record = read(file, digest_required=digest_required)
        except RecordError as error:
            evidence.problems.append(f"{error}; it is left out")
        else:
            yield Place(folder, str(file), store.arrays_file(record.id)), record


def own_files(evidence: Evidence, board: Path) -> dict[str, bytes]:
    """Return the file of records that were run here, and those of their arrays, by their path in a leaderboard."""
    return _files(evidence, [record for record in evidence.records if record.id not in evidence.reported], board, "")


def _files(evidence: Evidence, records: list[Record], board: Path, into: str) -> dict[str, bytes]:
    """Return the file of records, in their order, and those of their arrays, by path in a leaderboard."""
    made = {
        f"{into}{packed.ARRAYS}/{record.id}.npz": read_bytes(evidence.places[record.id].arrays, arrays.LARGEST)
        for record in records
        if record.arrays
    }
    return made | {f"{into}{packed.FILE}": packed.write(records, board / into / packed.FILE)}


def moved(evidence: Evidence, board: Path) -> Evidence:
    """Return the records that were run here together with the entries from outside of another leaderboard."""
    own = [record for record in evidence.records if record.id not in evidence.reported]
    places = {record.id: evidence.places[record.id] for record in own}
    joined = Evidence(board, own, evidence.problems, {}, places)
    _take_entries(joined, board)
    joined.records.sort(key=_order)
    return joined


def read_entry(folder: Path) -> Entry:
    """Return the description of an entry from outside."""
    file = folder / ENTRY
    content = read_json(file, LARGEST_ENTRY)
    try:
        return Entry.model_validate(content)
    except ValidationError as error:
        raise RecordError(f"{file}: {validation.first_problem(error)}") from error


def accept(source: Path, ours: Evidence) -> tuple[Evidence, dict[str, bytes]]:
    """Add an entry from outside to a leaderboard's evidence, all of it or nothing, without running its code.

    Return the evidence with the entry, and the entry's files in the leaderboard.
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
    # Written last: a folder without it was left by a command that was killed, and is no entry.
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
    """Return the reason to refuse a record from outside, which may add a defense and change nothing else, or ""."""
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
        return "declares another aim of its attack than our records do"
    return ""


def _defenses(record: Record) -> set[str]:
    return {record.labels["defense"], *record.shared_by}
