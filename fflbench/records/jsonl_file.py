"""Records of a leaderboard in one compressed file, one line of JSON per record, with arrays in a folder beside it.

Anyone may have written such a file: its size is bounded, every line must hold the digest of its record, and a damaged
line does not affect the others.
"""

import io
import lzma
import os
import re
from collections.abc import Iterable
from pathlib import Path

from fflbench.errors import RecordError
from fflbench.records.record import LARGEST as LONGEST_LINE
from fflbench.records.record import Record
from fflbench.untrusted_files import read_bytes

FILE, ARRAYS, ENTRIES = "records.jsonl.xz", "arrays", "entries"
LARGEST, LARGEST_TEXT, MOST = 2**26, 2**28, 2**16
"""Most bytes of a file, bytes that it may unpack to, and lines in it."""
PRESET, CHECK = 6, lzma.CHECK_CRC64
MEMORY = 2**27
"""Most bytes of memory for unpacking; files of the highest preset need half of it."""
STEP = 2**16
"""Bytes that are unpacked at a time."""
ID = re.compile(r"[0-9a-f]{1,16}")


def pack_records(records: Iterable[Record], existing_file: Path) -> bytes:
    """Return the content of a file of records, in their order.

    If `existing_file` unpacks to the same text, its bytes are returned, since another version of the library may
    compress differently.
    """
    lines = [record.json_text(indent=None).encode() for record in records]
    text = b"".join(lines)
    if len(text) > LARGEST_TEXT or len(lines) > MOST:
        raise RecordError(
            f"{len(lines):,} records of {len(text):,} bytes are too many for one {FILE}: {_limits_text()}"
        )
    try:
        content = read_bytes(existing_file, LARGEST)
        if _decompress_intact_part(existing_file, content) == (text, ""):
            return content
    except RecordError:
        # Not a usable file: it is replaced, or refused when files are written.
        pass
    return lzma.compress(text, lzma.FORMAT_XZ, CHECK, PRESET)


def read_records(file: Path) -> tuple[list[tuple[str, Record]], list[str]]:
    """Return the records of a file, each with its line, and the problems of the others.

    A file that is too large, packed or unpacked, is refused with a `RecordError`.
    """
    text, damage = _decompress_intact_part(file, read_bytes(file, LARGEST))
    records, problems, lost = [], [], 1
    for number, line in enumerate(io.BytesIO(text), start=1):
        place = f"{file}, line {number},"
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"longer than {LONGEST_LINE:,} bytes")
            records.append((place, Record.parse(line, digest_required=True)))
        except ValueError as error:
            if damage and not line.endswith(b"\n"):
                # The damage is in this line.
                break
            problems.append(f"{place} is {error}; it is left out")
        lost = number + 1
    if damage:
        problems.append(f"{file} is damaged from line {lost} on ({damage}); the rest is left out")
    return records, problems


def arrays_file(file: Path, record: Record) -> Path:
    """Return the file of arrays of a record in a packed file, which exists if the record has any."""
    return file.parent / ARRAYS / f"{record.id}.npz"


def has_records_file(folder: Path) -> bool:
    """Return whether a folder has its records in one file, as leaderboards and their entries do."""
    return os.path.lexists(folder / FILE)


def records_files(board: Path) -> list[Path]:
    """Return the files of records of a leaderboard and of its entries."""
    return [board / FILE, *sorted(board.glob(f"{ENTRIES}/[!.]*/{FILE}"))]


def is_record_path(path: Path) -> bool:
    """Return whether a path is BOARD/ID: the id of a record in a leaderboard, or its first letters."""
    return bool(ID.fullmatch(path.name)) and os.path.isfile(path.parent / FILE)  # noqa: PTH113 (too long is none)


def read_record(path: Path) -> Record:
    """Return the record that a path BOARD/ID names."""
    matching, problems = [], []
    for file in records_files(path.parent):
        try:
            records, damaged = read_records(file)
        except RecordError as error:
            problems.append(str(error))
            continue
        problems += damaged
        matching += [record for _, record in records if record.id.startswith(path.name)]
    if len(matching) != 1:
        what = f"{len(matching)} records" if matching else "no record"
        reason = f" ({problems[0]})" if problems else ""
        raise RecordError(f'{what} in {path.parent} with an id that begins with "{path.name}"{reason}')
    return matching[0]


def _limits_text() -> str:
    return f"at most {MOST:,} lines and {LARGEST_TEXT:,} bytes are read"


def _decompress_intact_part(file: Path, content: bytes) -> tuple[bytes, str]:
    """Return what a file unpacks to, as far as it is intact, and the problem with the rest of it."""
    text, damage, failed = _decompress(file, content)
    if failed:
        # The failing call lost what it had unpacked: repeat up to there, then go on byte by byte.
        text, damage, _ = _decompress(file, content, intact_bytes=len(text))
    return text, damage


def _decompress(file: Path, content: bytes, intact_bytes: int | None = None) -> tuple[bytes, str, bool]:
    """Return the text (`intact_bytes` of it are known to unpack), the problem of the rest, and if a call failed."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    text = bytearray()
    lines = 0
    try:
        while not decoder.eof:
            size = STEP if intact_bytes is None else max(1, min(STEP, intact_bytes - len(text)))
            piece, content = decoder.decompress(content, size), b""
            if not piece and not decoder.eof:
                return bytes(text), "it ends too early", False
            text += piece
            lines += piece.count(b"\n")
            if len(text) > LARGEST_TEXT or lines > MOST:
                raise RecordError(f"{file} unpacks to too much: {_limits_text()}")
    except lzma.LZMAError as error:
        return bytes(text), str(error).lower(), True
    return bytes(text), "there is more behind its end" if decoder.unused_data else "", False
