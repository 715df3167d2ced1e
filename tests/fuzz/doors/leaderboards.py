"""Leaderboards: made from altered records, in folders where other things stand, and with entries from outside."""

import json
import lzma
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.doors.records import altered_record
from tests.fuzz.fixtures import RecordFiles
from tests.fuzz.mutation import (
    alter_tree,
    damage_bytes,
    hostile_value,
    json_text,
    replace_file_by_other_kind,
    shell_argument,
    typed_text,
)
from tests.fuzz.outputs import check_outputs_harmless

PACKED = "records.jsonl.xz"


def _prepare_fixtures() -> None:
    fixtures.make_records()
    fixtures.make_leaderboard_files()


def write_board(case: Case) -> Path:
    """Put a leaderboard into the case's folder, and return where."""
    for name, content in fixtures.make_leaderboard_files().items():
        case.write(f"boards/{name}", content)
    return Path("boards/small")


def records_of_leaderboard() -> list[RecordFiles]:
    """Records of the leaderboard that cases start from."""
    ids = {json.loads(line)["id"] for line in _record_lines()}
    return [record for record in fixtures.make_records() if record.id in ids]


def _record_lines() -> list[bytes]:
    return lzma.decompress(fixtures.make_leaderboard_files()[f"small/{PACKED}"]).splitlines(keepends=True)


def replace_record(case: Case, board: Path, record: RecordFiles) -> None:
    """Put a record with a valid digest in the place of the one with its id, and its arrays."""
    lines = [
        record.with_valid_digest.text + b"\n" if record.id.encode() in line[:60] else line for line in _record_lines()
    ]
    case.write(f"{board}/{PACKED}", lzma.compress(b"".join(lines)))
    if record.packed:
        case.write(f"{board}/arrays/{record.id}.npz", record.packed)


@door("leaderboard", share=0.6, prepare=_prepare_fixtures)
def from_altered_records(case: Case) -> None:
    """`leaderboard` on altered records; what was made can be made again."""
    rng = case.rng
    measures = rng.choice(
        (("robustness",), ("reconstruction",), ("partner", "membership"), ("property", "runtime", "communication"))
    )
    kept = [record for record in fixtures.make_records() if record.measure in measures]
    changed = rng.sample(range(len(kept)), min(len(kept), rng.choice((1, 1, 2, 3))))
    folder = case.folder / "results" / "small"
    for place, record in enumerate(kept):
        (altered_record(rng, record) if place in changed else record).write(folder)
    extra = ["--knows", rng.choice(("own data", "defense", "x", ""))] if rng.random() < 0.1 else []
    ran = case.command("leaderboard", "results/small", "--out", "boards/small", *extra, writes=["boards"])
    if ran.code < 2:
        check_outputs_harmless(case, case.folder / "boards")
        again = case.command("leaderboard", "boards/small", writes=["boards"])
        case.require(again.code == 0, "a leaderboard that was made cannot be made again", detail=again.err)


@door("board-files", share=0.8, prepare=_prepare_fixtures)
def other_things_in_place_of_files(case: Case) -> None:
    """`leaderboard` on a leaderboard where links, FIFOs or folders stand in place of files, or files are damaged."""
    rng = case.rng
    board = case.folder / write_board(case)
    for _ in range(rng.choice((1, 1, 2))):
        places = sorted(path for path in board.parent.rglob("*") if not path.is_symlink())
        extra = [board / "entries", board / "entries" / "new", board / "arrays" / "new.npz", board / ".new"]
        place = rng.choice((*places, *extra))
        if rng.random() < 0.8 or not place.is_file():
            replace_file_by_other_kind(rng, place, case.world.outside)
        else:
            place.write_bytes(damage_bytes(rng, place.read_bytes()))
    if rng.random() < 0.5:
        case.command("leaderboard", "boards/small", writes=["boards"])
        return
    for record in fixtures.make_records():
        if record.measure == "communication":
            record.write(case.folder / "results" / "small")
    case.command("leaderboard", "results/small", "--out", "boards/small", writes=["boards"])


ENTRY = {"name": "theirs", "link": "https://example.org/theirs", "citation": "They et al., 2026"}


def outside_records(rng: Random) -> list[RecordFiles]:
    """Two cells of the leaderboard, with a defense from outside."""
    from fflbench.records.record import cell_id

    found = []
    for record in rng.sample(
        [record for record in records_of_leaderboard() if record.tree["labels"]["defense"] == "fedavg"], 2
    ):
        tree = record.tree
        *_, last = tree["configuration"]["defense"].values()
        last["name"] = tree["labels"]["defense"] = ENTRY["name"]
        tree["id"] = cell_id(tree["configuration"])
        found.append(
            RecordFiles(tree["id"], record.measure, json.dumps(tree).encode(), record.packed).with_valid_digest
        )
    return found


def write_entry(case: Case, records: list[RecordFiles], entry: Any) -> None:
    """Put an entry into the case's folder: a file for each record, or one for all."""
    if case.rng.random() < 0.5:
        for record in records:
            record.write(case.folder / "entry" / "records")
    else:
        case.write(f"entry/{PACKED}", lzma.compress(b"".join(record.text + b"\n" for record in records)))
        for record in records:
            if record.packed:
                case.write(f"entry/arrays/{record.id}.npz", record.packed)
    case.write("entry/entry.json", json_text(case.rng, entry))


@door("entries", share=1, prepare=_prepare_fixtures)
def entries(case: Case) -> None:
    """`leaderboard --add` with altered entries: a refused one leaves the board as it was, a taken one can be shown."""
    rng = case.rng
    board, records, kind = write_board(case), outside_records(rng), rng.random()
    if kind < 0.7:
        place = rng.randrange(len(records))
        records[place] = altered_record(rng, records[place], keep_id=rng.random() < 0.7).with_valid_digest
    write_entry(case, records, alter_tree(rng, ENTRY) if 0.7 < kind < 0.85 else ENTRY)
    files = sorted((case.folder / "entry").rglob("*"))
    if kind > 0.9:
        replace_file_by_other_kind(rng, rng.choice(files), case.world.outside)
    elif kind > 0.85:
        file = rng.choice([file for file in files if file.is_file()])
        file.write_bytes(damage_bytes(rng, file.read_bytes()))
    before = case.world.listing()
    ran = case.command("leaderboard", board, "--add", "entry", writes=["boards"])
    if ran.code == 2:
        changed = case.world.changes(before, case.world.listing())
        case.require(not changed, "a refused entry changes the leaderboard", detail="\n".join([*changed, ran.err]))
        return
    check_outputs_harmless(case, case.folder / "boards")
    again = case.command("leaderboard", board, writes=["boards"])
    case.require(again.code == 0, "a leaderboard cannot be made again after an entry was taken", detail=again.err)


@door("verify", share=0.5, prepare=_prepare_fixtures)
def verify(case: Case) -> None:
    """`verify` on a leaderboard with altered records, whose digests were altered with them."""
    rng = case.rng
    board = write_board(case)
    replace_record(case, board, altered_record(rng, rng.choice(records_of_leaderboard()), keep_id=True))
    case.command("verify", board, "--sample", rng.choice(("1", "2", "100")), "--seed", str(rng.randrange(9)))


@door("packed", share=3, prepare=_prepare_fixtures)
def packed_records(case: Case) -> None:
    """Altered files of packed records, by `show`, `run`, `leaderboard --all` and `load`."""
    import fflbench

    rng = case.rng
    board, lines = write_board(case), _record_lines()
    place, kind = rng.randrange(len(lines)), rng.random()
    record = rng.choice(records_of_leaderboard())
    if kind < 0.4:
        replace_record(case, board, altered_record(rng, record, keep_id=rng.random() < 0.7))
    elif kind < 0.7:
        others = (
            damage_bytes(rng, lines[place]),
            b"\n",
            lines[place - 1],
            json_text(rng, hostile_value(rng)) + b"\n",
            b"",
        )
        lines[place] = rng.choice(others)
        case.write(board / PACKED, lzma.compress(b"".join(lines), preset=rng.choice((0, 6))))
    elif kind < 0.95:
        case.write(board / PACKED, damage_bytes(rng, fixtures.make_leaderboard_files()[f"small/{PACKED}"]))
    else:
        text = rng.choice((b"\n" * 10**6, bytes(2**28 + 1), b"[" * 10**7))
        case.write(board / PACKED, lzma.compress(text, rng.choice((lzma.FORMAT_XZ, lzma.FORMAT_ALONE)), preset=0))
    name = record.id[: rng.choice((1, 3, 8, 16))]
    ways = (
        *(lambda: case.command("show", f"{board}/{name}"), lambda: case.command("show", name, "--out", "boards")),
        lambda: case.command("run", f"{board}/{name}", "--dry-run"),
        lambda: case.command("leaderboard", "--all", "boards", "--check"),
        lambda: case.call(fflbench.load, case.folder / "boards"),
    )
    rng.choice(ways)()


@door("board-options", share=0.2, prepare=_prepare_fixtures)
def options_of_leaderboards(case: Case) -> None:
    """`leaderboard`, `verify` and `show` on folders that are no leaderboards, and with odd options."""
    rng = case.rng
    write_board(case)
    case.write("file", "x")
    folder = rng.choice(
        ("boards", "boards/small", "boards/small/arrays", "file", "", ".", "nothing", "boards/small/tables")
    )
    extra = rng.choice(
        (
            *(
                (),
                ("--knows", shell_argument(typed_text(hostile_value(rng)))),
                ("--out", "boards/other"),
                ("--out", "file"),
            ),
            *(("--all",), ("--check",), ("--all", "--check"), ("--all", "--out", "boards/other")),
        )
    )
    case.command("leaderboard", folder, *extra, writes=["."])
