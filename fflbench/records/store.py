"""Store of records: DIR/<suite>/<cell id>.json, written atomically."""

import fcntl
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fflbench.errors import RecordError
from fflbench.records import jsonl_file, npz_file, validation
from fflbench.records.npz_file import Arrays, arrays_digest, unpack_arrays
from fflbench.records.record import LARGEST, Record
from fflbench.untrusted_files import read_bytes


class Store:
    """Records of one suite in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A lock of the kernel ends with its process, however that ends. `in_use` holds it for an instant, so a second
        # attempt is worthwhile.
        self.lock = FileLock(folder / ".lock", timeout=1, poll_interval=0.1)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process, and remove partial files of a killed run."""
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
        """Whether a run is writing to the folder now."""
        if not Path(self.lock.lock_file).exists():
            return False
        try:
            # Opening a named pipe would otherwise wait for a writer.
            handle = os.open(self.lock.lock_file, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(handle, "rb"):
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except BlockingIOError:
            return True
        except OSError as error:
            raise RecordError(f"{self.lock.lock_file} cannot be opened: {error.strerror}") from error

    def record_file(self, cell: str) -> Path:
        """Return the file of a cell's record."""
        return self.folder / f"{cell}.json"

    def checkpoint_file(self, cell: str) -> Path:
        """Return the file of a cell's checkpoint."""
        return self.folder / f"{cell}.checkpoint.npz"

    def read(self, cell: str) -> Record | None:
        """Return a cell's record, or None; a damaged one is reported by a warning."""
        file = self.record_file(cell)
        if not os.path.lexists(file):
            return None
        if file.is_dir():
            # A record could not replace it.
            raise RecordError(f"{file} is a folder where a record belongs: move it away")
        try:
            return read_record(file)
        except RecordError as error:
            warnings.warn(f"{error}; its cell runs again", stacklevel=2)
            return None

    def arrays_file(self, cell: str) -> Path:
        """Return the file of arrays of a cell's record, which exists if the record has any."""
        return self.folder / f"{cell}.npz"

    def arrays(self, record: Record) -> Arrays:
        """Return the arrays of a record, checked by its digest; empty if it has none."""
        return read_arrays(self.arrays_file(record.id), record)

    def write(self, record: Record) -> None:
        """Write a record so that it survives a crash once this returns."""
        if record.packed:
            # First, so that no record names arrays that are missing.
            write_atomically(self.arrays_file(record.id), record.packed)
        write_atomically(self.record_file(record.id), record.json_text().encode())
        if not record.arrays:
            self.arrays_file(record.id).unlink(missing_ok=True)


def read_arrays(file: Path, record: Record) -> Arrays:
    """Return the arrays of a record from their file, checked by its digest; empty if it has none."""
    if not record.arrays:
        return {}
    content = read_bytes(file, npz_file.LARGEST)
    if arrays_digest(content) != record.arrays:
        raise RecordError(f"{file} is not what its record was written with")
    try:
        unpacked = unpack_arrays(content)
        validation.check_arrays(record, unpacked)
    except ValueError as error:
        raise RecordError(f"{file} is damaged: {error}") from error
    return unpacked


def read_record(path: Path, *, digest_required: bool = False) -> Record:
    """Return the record that a path names, a file of a run or BOARD/ID, or raise an error that names the path."""
    if jsonl_file.is_record_path(path):
        return jsonl_file.read_record(path)
    try:
        record = Record.parse(read_bytes(path, LARGEST), digest_required=digest_required)
    except ValueError as error:
        raise RecordError(f"{path} is {error}") from error
    if record.id != path.stem:
        raise RecordError(f"{path} is the record of another cell, {record.id}")
    return record


def read_all_records(root: Path) -> Iterator[tuple[Path, Record]]:
    """Yield all records under a folder with their files; damaged ones are reported by a warning and left out."""
    if not os.path.isdir(root):  # noqa: PTH112 (a name too long for a folder is none)
        raise RecordError(f"there is no folder {root}")
    for file in record_files(root):
        if file.name == jsonl_file.FILE:
            yield from ((file, record) for record in _read_packed_records(file))
            continue
        try:
            yield file, read_record(file)
        except RecordError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=3)


def _read_packed_records(file: Path) -> list[Record]:
    try:
        records, problems = jsonl_file.read_records(file)
    except RecordError as error:
        records, problems = [], [f"{error}; no record in it counts"]
    for problem in problems:
        warnings.warn(problem, stacklevel=4)
    return [record for _, record in records]


def record_files(root: Path) -> Iterator[Path]:
    """Yield the files under a folder that hold records: one per leaderboard or entry, elsewhere one per cell."""
    boards = {file.parent for file in root.rglob(jsonl_file.FILE)}
    for file in sorted([*root.rglob("*.json"), *(board / jsonl_file.FILE for board in boards)]):
        if any(part.startswith(".") for part in file.relative_to(root).parts):
            # Staged by a command that is running, or was killed.
            continue
        if file.name == jsonl_file.FILE or boards.isdisjoint(file.parents):
            yield file


def record_paths(root: Path) -> Iterator[Path]:
    """Yield the paths of records under a folder: their files, or BOARD/ID."""
    for file in record_files(root):
        yield from (
            (file.with_name(record.id) for record in _read_packed_records(file))
            if file.name == jsonl_file.FILE
            else [file]
        )


def write_atomically(file: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file atomically; if `durable`, so that it also survives a power cut."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".new", dir=file.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        fresh.chmod(0o644)
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if not durable:
        return
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
