"""Leaderboards: made from altered records, in folders where other things stand, and with entries from outside."""

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.doors.records import altered_record
from tests.fuzz.fixtures import Made
from tests.fuzz.mutation import altered, damaged, hostile, json_text, misplace, shown, speakable
from tests.fuzz.outputs import harmless

SUMS = "SHA256SUMS"


def _ready() -> None:
    fixtures.made()
    fixtures.board()


def write_board(case: Case) -> Path:
    """Put a leaderboard into the case's folder, and return where."""
    for name, content in fixtures.board().items():
        case.write(f"boards/{name}", content)
    return Path("boards/small")


@door("leaderboard", share=0.6, prepare=_ready)
def from_altered_records(case: Case) -> None:
    """`leaderboard` on altered records; what was made can be made again."""
    rng = case.rng
    measures = rng.choice(
        (("",), ("reconstruction",), ("partner", "membership"), ("property", "runtime", "communication"))
    )
    kept = [record for record in fixtures.made() if record.measure in measures]
    changed = rng.sample(range(len(kept)), min(len(kept), rng.choice((1, 1, 2, 3))))
    folder = case.folder / "results" / "small"
    for place, record in enumerate(kept):
        (altered_record(rng, record) if place in changed else record).write(folder)
    extra = ["--knows", rng.choice(("own data", "defense", "x", ""))] if rng.random() < 0.1 else []
    ran = case.command("leaderboard", "results/small", "--out", "boards/small", *extra, writes=["boards"])
    if ran.code < 2:
        harmless(case, case.folder / "boards")
        again = case.command("leaderboard", "boards/small", writes=["boards"])
        case.require(again.code == 0, "a leaderboard that was made cannot be made again", detail=again.err)


@door("board-files", share=0.8, prepare=_ready)
def other_things_in_place_of_files(case: Case) -> None:
    """`leaderboard` on a leaderboard where links, FIFOs or folders stand in place of files, or digests are wrong."""
    rng = case.rng
    board = case.folder / write_board(case)
    for _ in range(rng.choice((1, 1, 2))):
        places = sorted(path for path in board.parent.rglob("*") if not path.is_symlink())
        extra = [board / "entries", board / "entries" / "new", board / "records" / "new.json", board / ".new"]
        place = rng.choice((*places, *extra))
        if rng.random() < 0.8 or not place.is_file():
            misplace(rng, place, case.world.outside)
        else:
            place.write_bytes(damaged(rng, place.read_bytes()))
    if rng.random() < 0.5:
        case.command("leaderboard", "boards/small", writes=["boards"])
        return
    for record in fixtures.made():
        if record.measure == "communication":
            record.write(case.folder / "results" / "small")
    case.command("leaderboard", "results/small", "--out", "boards/small", writes=["boards"])


ENTRY = {"name": "theirs", "link": "https://example.org/theirs", "citation": "They et al., 2026"}


def their_records(rng: Random) -> list[Made]:
    """Two cells of the leaderboard, with a defense from outside."""
    from fflbench.records.record import identify

    on_board = [record for record in fixtures.made() if f"small/records/{record.id}.json" in fixtures.board()]
    found = []
    for record in rng.sample([record for record in on_board if record.tree["labels"]["defense"] == "fedavg"], 2):
        tree = record.tree
        tree.pop("digest", None)
        tree["configuration"]["defense"]["name"] = tree["labels"]["defense"] = ENTRY["name"]
        tree["id"] = identify(tree["configuration"])
        found.append(Made(tree["id"], record.measure, json.dumps(tree).encode(), record.packed))
    return found


def write_entry(case: Case, records: list[Made], entry: Any) -> None:
    """Put an entry into the case's folder, with the digests of its files."""
    folder = case.folder / "entry" / "records"
    for record in records:
        record.write(folder)
    case.write("entry/entry.json", json_text(case.rng, entry))
    write_sums(folder)


def write_sums(folder: Path) -> None:
    """Write the digests of a folder's records and arrays."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".json", ".npz"))
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (folder / SUMS).write_text(sums)


@door("entries", share=1, prepare=_ready)
def entries(case: Case) -> None:
    """`leaderboard --add` with altered entries: a refused one leaves the board as it was, a taken one can be shown."""
    rng = case.rng
    board, records, kind = write_board(case), their_records(rng), rng.random()
    if kind < 0.7:
        place = rng.randrange(len(records))
        records[place] = altered_record(rng, records[place], keep_id=rng.random() < 0.7)
    write_entry(case, records, altered(rng, ENTRY) if 0.7 < kind < 0.85 else ENTRY)
    files = sorted((case.folder / "entry").rglob("*"))
    if kind > 0.9:
        misplace(rng, rng.choice(files), case.world.outside)
    elif kind > 0.85:
        file = rng.choice([file for file in files if file.is_file()])
        file.write_bytes(damaged(rng, file.read_bytes()))
    before = case.world.listing()
    ran = case.command("leaderboard", board, "--add", "entry", writes=["boards"])
    if ran.code == 2:
        changed = case.world.changes(before, case.world.listing())
        case.require(not changed, "a refused entry changes the leaderboard", detail="\n".join([*changed, ran.err]))
        return
    harmless(case, case.folder / "boards")
    again = case.command("leaderboard", board, writes=["boards"])
    case.require(again.code == 0, "a leaderboard cannot be made again after an entry was taken", detail=again.err)


@door("verify", share=0.5, prepare=_ready)
def verify(case: Case) -> None:
    """`verify` on a leaderboard with altered records, whose digests were altered with them."""
    rng = case.rng
    board = write_board(case)
    folder = case.folder / board / "records"
    on_board = [record for record in fixtures.made() if (folder / f"{record.id}.json").exists()]
    altered_record(rng, rng.choice(on_board), keep_id=True).write(folder)
    write_sums(folder)
    case.command("verify", board, "--sample", rng.choice(("1", "2", "100")), "--seed", str(rng.randrange(9)))


@door("board-options", share=0.2, prepare=_ready)
def options_of_leaderboards(case: Case) -> None:
    """`leaderboard`, `verify` and `show` on folders that are no leaderboards, and with odd options."""
    rng = case.rng
    write_board(case)
    case.write("file", "x")
    folder = rng.choice(
        ("boards", "boards/small", "boards/small/records", "file", "", ".", "nothing", "boards/small/tables")
    )
    extra = rng.choice(((), ("--knows", speakable(shown(hostile(rng)))), ("--out", "boards/other"), ("--out", "file")))
    case.command("leaderboard", folder, *extra, writes=["."])
