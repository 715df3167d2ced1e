"""Where records are kept: DIR/<suite>/<cell id>.json, written whole or not at all."""

import fcntl
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from fflbench.errors import RecordError
from fflbench.records.arrays import Arrays, digest, unpack
from fflbench.records.record import Record, Records

LARGEST = 2**28
"""Bytes that a record may have."""


class Store:
    """The records of one suite in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The kernel's: it goes with the process that holds it, however that ends. Whoever only looks whether it is
        # held holds it for an instant, so it is worth a second try.
        self.lock = FileLock(folder / ".lock", timeout=1, poll_interval=0.1)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have the folder to oneself, and sweep up what a killed run left half written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.lock:
                for left_over in self.folder.glob(".*.new"):
                    left_over.unlink(missing_ok=True)
                yield
        except Timeout as error:
            raise RecordError(
                f"another run is writing to {self.folder} (fflbench status {self.folder}): "
                "wait for it, or choose another --out"
            ) from error
        except OSError as error:
            raise RecordError(
                f"results cannot be kept in {self.folder}: {error.strerror or error}; "
                "mend that or choose another --out, and run the command again"
            ) from error

    @property
    def in_use(self) -> bool:
        """Whether a run is writing there now."""
        if not Path(self.lock.lock_file).exists():
            return False
        try:
            with Path(self.lock.lock_file).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except BlockingIOError:
            return True
        except OSError as error:
            raise RecordError(f"{self.lock.lock_file} cannot be looked at: {error.strerror}") from error

    def file(self, cell: str) -> Path:
        """Where a cell's record stands."""
        return self.folder / f"{cell}.json"

    def checkpoint(self, cell: str) -> Path:
        """Where a cell in progress keeps its state."""
        return self.folder / f"{cell}.checkpoint.npz"

    def read(self, cell: str) -> Record | None:
        """A cell's record; a damaged one is told and counts as none."""
        if not self.file(cell).is_file():
            return None
        try:
            return read(self.file(cell))
        except RecordError as error:
            warnings.warn(f"{error}; its cell runs again", stacklevel=2)
            return None

    def arrays_file(self, cell: str) -> Path:
        """Where the arrays of a cell's record stand, if it has any."""
        return self.folder / f"{cell}.npz"

    def arrays(self, record: Record) -> Arrays:
        """The arrays of a record, as they were when it was written; nothing where it has none."""
        if not record.arrays:
            return {}
        file = self.arrays_file(record.id)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise RecordError(f"{file}, which belongs to a record, cannot be read: {error.strerror}") from error
        if digest(content) != record.arrays:
            raise RecordError(f"{file} is not what its record was written with")
        try:
            return unpack(content)
        except ValueError as error:
            raise RecordError(f"{file} is damaged: {error}") from error

    def write(self, record: Record) -> None:
        """Keep a record: once this returns, no crash can take it away."""
        if record.packed:
            # First, so that no record ever speaks of arrays that are not there.
            write_whole(self.arrays_file(record.id), record.packed)
        write_whole(self.file(record.id), record.json_text().encode())
        if not record.arrays:
            self.arrays_file(record.id).unlink(missing_ok=True)


def read(file: Path) -> Record:
    """A record from its file, or an error that names the file."""
    try:
        if file.stat().st_size > LARGEST:
            raise RecordError(f"{file} is no record: it is larger than any of ours")
        record = Record.model_validate(json.loads(file.read_bytes(), parse_constant=_refuse))
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{file} is no record: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{file} is damaged: {error}") from error
    if record.id != file.stem:
        raise RecordError(f"{file} is the record of another cell, {record.id}")
    return record


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def load(folder: str | Path) -> Records:
    """All records under a folder; damaged ones are told and left out."""
    root = Path(folder)
    if not root.is_dir():
        raise RecordError(f"there is no folder {root}")
    return Records(_readable(root))


def _readable(root: Path) -> Iterator[Record]:
    for file in sorted(root.rglob("*.json")):
        try:
            yield read(file)
        except RecordError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=3)


def write_whole(file: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file so that it is either as before or complete; if it is to last, power cuts included."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".new", dir=file.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            if lasting:
                os.fsync(stream.fileno())
        fresh.chmod(0o644)
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if not lasting:
        return
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
