"""Records as evidence: a folder of them with their digests, and what of it can be trusted."""

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.errors import RecordError
from fflbench.records import shapes
from fflbench.records.arrays import Arrays
from fflbench.records.record import Record
from fflbench.records.store import Store, read, write_whole

RECORDS, ENTRIES, SUMS, ENTRY = "records", "entries", "SHA256SUMS", "entry.json"


class Entry(BaseModel):
    """What an entry from outside says of itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[\w][\w. -]*$", max_length=80)
    """Of the plugin, as it is registered."""
    link: str = Field(pattern=r"^https?://\S+$", max_length=300)
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
        lines = file.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        found.problems.append(f"{file} cannot be read: no record in its folder counts")
        return {}
    pairs = [re.fullmatch(r"([0-9a-f]{64})  ([\w.]+)", line) for line in lines]
    if not all(pairs):
        found.problems.append(f"{file} is damaged: records that it does not name are left out")
    return {pair[2]: pair[1] for pair in pairs if pair}


def _checked(store: Store, file: Path, sums: dict[str, str] | None) -> Record:
    """A record that is what its digests say, its arrays included."""
    try:
        files = [file, *(beside for beside in [store.arrays_file(file.stem)] if beside.exists())]
        for each in files:
            if sums is not None and sums.get(each.name) != digest_of(each):
                raise RecordError(f"{each} is not what {SUMS} says")
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from error
    record = read(file)
    store.arrays(record)
    try:
        shapes.check(record)
    except RecordError as error:
        raise RecordError(f"{file} is a record without what its tables need: {error}") from error
    return record


def digest_of(file: Path) -> str:
    """A file's SHA-256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def keep(found: Evidence, board: Path) -> Evidence:
    """Copy records and arrays into a leaderboard, with their digests, in the place of what was there.

    Returns what the leaderboard then holds, its entries from outside included.
    """
    kept: dict[str, str] = {}
    folder = board / RECORDS
    folder.mkdir(parents=True, exist_ok=True)
    for record in found.records:
        if record.id in found.reported:
            continue
        store = found.places[record.id]
        for file in (store.file(record.id), store.arrays_file(record.id)):
            if file.exists() and (file.suffix == ".json" or record.arrays):
                # The original stays where it is, so that a copy need not survive a power cut.
                shutil.copyfile(file, folder / file.name)
                kept[file.name] = digest_of(file)
    for file in folder.iterdir():
        if file.name not in kept and file.suffix in (".json", ".npz"):
            file.unlink()
    write_sums(folder, kept)
    own = [record for record in found.records if record.id not in found.reported]
    copied = Evidence(board, own, found.problems, {}, {record.id: Store(folder) for record in own})
    _take_entries(copied, board)
    copied.records.sort(key=_order)
    return copied


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """Write digests as `sha256sum --check` reads them."""
    text = "".join(f"{value}  {name}\n" for name, value in sorted(sums.items()))
    write_whole(folder / SUMS, text.encode())


def read_entry(folder: Path) -> Entry:
    """What an entry says of itself."""
    file = folder / ENTRY
    try:
        return Entry.model_validate(json.loads(file.read_bytes()))
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{file} is damaged: {error}") from error


def add(source: Path, board: Path) -> Entry:
    """Take an entry from outside into a leaderboard: all of it, or nothing. No code of it runs."""
    entry = read_entry(source)
    if entry.verified:
        raise RecordError(f"{source / ENTRY}: verified is for those who run it again, not for those who report it")
    if not (board / RECORDS).is_dir():
        raise RecordError(f"{board} is no leaderboard: make one first (fflbench leaderboard {board})")
    if not (source / RECORDS / SUMS).is_file():
        raise RecordError(f"{source / RECORDS / SUMS} is missing: sha256sum *.json *.npz > {SUMS} writes it")
    theirs = gather(source)
    if theirs.problems:
        raise RecordError(f"the entry is not taken: {theirs.problems[0]}")
    ours = gather(board)
    for record in theirs.records:
        if why := _misfit(record, entry, ours.records):
            raise RecordError(f"the entry is not taken: {record} {why}")
    into = board / ENTRIES / re.sub(r"[^\w.]+", "-", entry.name)
    if into.exists():
        raise RecordError(f"the entry is not taken: {into} is there already")
    fresh = into.with_name(f".{into.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / RECORDS).mkdir(parents=True)
    for name in (RECORDS + "/" + SUMS, ENTRY, *(f"{RECORDS}/{name}" for name in _files(theirs))):
        write_whole(fresh / name, (source / name).read_bytes())
    fresh.rename(into)
    return entry


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


def _files(found: Evidence) -> Iterator[str]:
    for record in found.records:
        yield f"{record.id}.json"
        if record.arrays:
            yield f"{record.id}.npz"
