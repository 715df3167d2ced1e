"""Records as evidence: a folder of them with their digests, and what of it can be trusted."""

import hashlib
import os
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.errors import RecordError
from fflbench.records import arrays, shapes
from fflbench.records.arrays import Arrays
from fflbench.records.names import slug
from fflbench.records.reading import read_bytes, read_json
from fflbench.records.record import LARGEST, Record
from fflbench.records.store import Store, parsed, write_whole

RECORDS, ENTRIES, SUMS, ENTRY = "records", "entries", "SHA256SUMS", "entry.json"
LARGEST_SUMS, LARGEST_ENTRY = 2**24, 2**20
"""Bytes that are read of these files."""


class Entry(BaseModel):
    """What an entry from outside says of itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[\w][\w. -]*$", max_length=80)
    """Of the plugin, as it is registered."""
    link: str = Field(pattern=r"^https?://[!-~]+$", max_length=300)
    citation: str = Field(max_length=500)
    verified: tuple[str, ...] = ()
    """Cells that were run again here and came out the same."""

    @property
    def origin(self) -> str:
        """What a reader must be told of its rows."""
        how = "reported, not run again" if not self.verified else f"reported; {len(self.verified)} cells run again"
        return f"{how} ({self.name}, {self.link}, {self.citation})"


@dataclass
class Evidence:
    """What a folder holds, and what is wrong with it."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reported: dict[str, str] = field(default_factory=dict)
    """Cells that came from outside, with their origin."""
    places: dict[str, Store] = field(default_factory=dict)
    """Where each record stands."""

    @property
    def suite(self) -> str:
        """The suite that most records are of."""
        return Counter(record.suite for record in self.records).most_common(1)[0][0]

    def arrays(self, record: Record) -> Arrays:
        """The arrays beside a record."""
        return self.places[record.id].arrays(record)


def gather(folder: Path) -> Evidence:
    """All records of a leaderboard, or of a folder that `fflbench run` wrote; damaged ones are told and left out."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}")
    found = Evidence(folder)
    _take(found, folder / RECORDS if (folder / RECORDS).is_dir() else folder)
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
        ours = list(found.records)
        theirs = Evidence(entry_folder)
        _take(theirs, entry_folder / RECORDS)
        found.problems += theirs.problems
        for record in theirs.records:
            if why := _misfit(record, entry, ours):
                found.problems.append(f"{theirs.places[record.id].file(record.id)} {why}; it is left out")
            else:
                found.records.append(record)
                found.places[record.id] = theirs.places[record.id]
                found.reported[record.id] = entry.origin


def _order(record: Record) -> tuple[object, ...]:
    """Tasks by name; without attack before with one, FedAvg before others; then by name."""
    labels, chosen = record.labels, record.configuration
    attack = chosen.get("attack", {}).get("name", "")
    return (
        labels["task"],
        str(chosen.get("measure")),
        attack != "none",
        labels.get("attack", labels.get("privacy-attack", "")),
        chosen["defense"]["name"] != "fedavg",
        labels["defense"],
        chosen["seed"],
        record.id,
    )


def _take(found: Evidence, root: Path) -> None:
    store, sums = Store(root), _sums(root, found)
    for file in sorted(root.glob("*.json")):
        try:
            record = _checked(store, file, sums)
        except RecordError as error:
            found.problems.append(f"{error}; it is left out")
            continue
        if record.id in found.places:
            found.problems.append(f"{file} is the record of a cell that is there already; it is left out")
            continue
        found.records.append(record)
        found.places[record.id] = store
    if sums is not None:
        there = {file.name for file in root.iterdir()}
        found.problems += [f"{root / name} is missing" for name in sorted(set(sums) - there)]


def _sums(root: Path, found: Evidence) -> dict[str, str] | None:
    """The digests beside the records, by file; nothing where there are none."""
    file = root / SUMS
    if not file.exists():
        return None
    try:
        lines = read_bytes(file, LARGEST_SUMS).decode("ascii").splitlines()
    except RecordError as error:
        found.problems.append(f"{error}: no record in its folder counts")
        return {}
    except UnicodeDecodeError:
        found.problems.append(f"{file} is damaged: no record in its folder counts")
        return {}
    pairs = [re.fullmatch(r"([0-9a-f]{64})  ([\w.]+)", line) for line in lines]
    if not all(pairs):
        found.problems.append(f"{file} is damaged: records that it does not name are left out")
    return {pair[2]: pair[1] for pair in pairs if pair}


def _checked(store: Store, file: Path, sums: dict[str, str] | None) -> Record:
    """A record that is what its digests say, its arrays included."""
    content = read_bytes(file, LARGEST)
    if sums is not None and sums.get(file.name) != hashlib.sha256(content).hexdigest():
        raise RecordError(f"{file} is not what {SUMS} says")
    record = parsed(file, content)
    beside = store.arrays_file(record.id)
    if sums is not None and record.arrays and sums.get(beside.name) != record.arrays:
        raise RecordError(f"{beside} is not what {SUMS} says")
    store.arrays(record)
    return record


def digest_of(file: Path) -> str:
    """A file's SHA-256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def own_files(found: Evidence) -> dict[str, bytes]:
    """The files of records that were run here, their arrays and digests, by their path in a leaderboard."""
    own = [record for record in found.records if record.id not in found.reported]
    return {f"{RECORDS}/{name}": content for name, content in _files(found, own).items()}


def _files(found: Evidence, records: list[Record]) -> dict[str, bytes]:
    """Records with their arrays as they stand on disk, and a file of their digests, by name."""
    made: dict[str, bytes] = {}
    for record in records:
        store = found.places[record.id]
        made[f"{record.id}.json"] = read_bytes(store.file(record.id), LARGEST)
        if record.arrays:
            made[f"{record.id}.npz"] = read_bytes(store.arrays_file(record.id), arrays.LARGEST)
    return made | {SUMS: _sums_text({name: hashlib.sha256(content).hexdigest() for name, content in made.items()})}


def moved(found: Evidence, board: Path) -> Evidence:
    """The records of `found` that were run here, beside the entries from outside of another leaderboard."""
    own = [record for record in found.records if record.id not in found.reported]
    places = {record.id: found.places[record.id] for record in own}
    joined = Evidence(board, own, found.problems, {}, places)
    _take_entries(joined, board)
    joined.records.sort(key=_order)
    return joined


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """Write digests as `sha256sum --check` reads them."""
    write_whole(folder / SUMS, _sums_text(sums))


def _sums_text(sums: dict[str, str]) -> bytes:
    return "".join(f"{value}  {name}\n" for name, value in sorted(sums.items())).encode()


def read_entry(folder: Path) -> Entry:
    """What an entry says of itself."""
    file = folder / ENTRY
    content = read_json(file, LARGEST_ENTRY)
    try:
        return Entry.model_validate(content)
    except ValidationError as error:
        raise RecordError(f"{file}: {shapes.first_problem(error)}") from error


def accept(source: Path, ours: Evidence) -> tuple[Evidence, dict[str, bytes]]:
    """Take an entry from outside into a leaderboard's evidence: all of it, or nothing. No code of it runs.

    Returns the evidence with the entry, and the files by which the entry will stand in the leaderboard.
    """
    entry = read_entry(source)
    if entry.verified:
        raise RecordError(f"{source / ENTRY}: verified is for those who run it again, not for those who report it")
    if not (source / RECORDS / SUMS).is_file():
        raise RecordError(f"{source / RECORDS / SUMS} is missing: sha256sum *.json *.npz > {SUMS} writes it")
    theirs = Evidence(source)
    _take(theirs, source / RECORDS)
    if theirs.problems:
        raise RecordError(f"the entry is not taken: {theirs.problems[0]}")
    if not theirs.records:
        raise RecordError(f"the entry is not taken: there is no record in {source / RECORDS}")
    for record in theirs.records:
        if why := _misfit(record, entry, ours.records):
            raise RecordError(f"the entry is not taken: {record} {why}")
    into = f"{ENTRIES}/{slug(entry.name)}"
    if os.path.lexists(ours.folder / into / ENTRY):
        raise RecordError(f"the entry is not taken: {ours.folder / into} is there already")
    files = {f"{into}/{RECORDS}/{name}": content for name, content in _files(theirs, theirs.records).items()}
    # Last, so that a folder without it is of a command that was killed, and no entry yet.
    files[f"{into}/{ENTRY}"] = read_bytes(source / ENTRY, LARGEST_ENTRY)
    joined = replace(
        ours,
        records=sorted([*ours.records, *theirs.records], key=_order),
        places=ours.places | theirs.places,
        reported=ours.reported | {record.id: entry.origin for record in theirs.records},
    )
    return joined, files


def _misfit(record: Record, entry: Entry, ours: list[Record]) -> str:
    """Why a record from outside cannot stand beside ours: it may add a defense, and change nothing else."""
    if record.configuration["defense"]["name"] != entry.name:
        return f"is not about the defense {entry.name}"
    if record.labels["defense"] in {own.labels["defense"] for own in ours}:
        return f'calls its defense "{record.labels["defense"]}", a name that is taken'
    if record.id in {own.id for own in ours}:
        return "is there already"
    kinds = [kind for kind in ("task", "attack", "privacy-attack", "measure") if kind in record.configuration]
    alike = [
        own
        for own in ours
        if all(
            own.configuration.get(kind) == record.configuration[kind] and own.labels.get(kind) == record.labels[kind]
            for kind in kinds
        )
    ]
    if not any(own.configuration["seed"] == record.configuration["seed"] for own in alike):
        return "is a cell that no defense of ours has: task, attack, measure and seed must be of this leaderboard"
    done = [own for own in alike if own.status == "done"]
    if record.status == "done" and done and record.facts.get("targeted") != done[0].facts.get("targeted"):
        return "says otherwise of its attack's aim than our records do"
    return ""
