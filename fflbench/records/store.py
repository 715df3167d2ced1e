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
from fflbench.reading import read_bytes
from fflbench.records import arrays, packed, validation
from fflbench.records.arrays import Arrays, digest, unpack
from fflbench.records.record import LARGEST, Record, Records


class Store:
    """Records of one suite in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A lock of the kernel ends with its process, however that ends. `in_use` holds it for an instant, so a second
        # attempt is worthwhile.
        self.lock = FileLock(folder / ".lock", timeout=1, poll_interval=0.1)

    @contextmanager
    def writing(self) -> Iterator[None]:
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

    def file(self, cell: str) -> Path:
        """Return the file of a cell's record."""
        return self.folder / f"{cell}.json"

    def checkpoint(self, cell: str) -> Path:
        """Return the file of a cell's checkpoint."""
        return self.folder / f"{cell}.checkpoint.npz"

    def read(self, cell: str) -> Record | None:
        """Return a cell's record, or None; a damaged one is reported by a warning."""
        file = self.file(cell)
        if not os.path.lexists(file):
            return None
        if file.is_dir():
            # A record could not replace it.
            raise RecordError(f"{file} is a folder where a record belongs: move it away")
        try:
            return read(file)
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
            write_whole(self.arrays_file(record.id), record.packed)
        write_whole(self.file(record.id), record.json_text().encode())
        if not record.arrays:
            self.arrays_file(record.id).unlink(missing_ok=True)


def read_arrays(file: Path, record: Record) -> Arrays:
    """Return the arrays of a record from their file, checked by its digest; empty if it has none."""
    if not record.arrays:
        return {}
    content = read_bytes(file, arrays.LARGEST)
    if digest(content) != record.arrays:
        raise RecordError(f"{file} is not what its record was written with")
    try:
        unpacked = unpack(content)
        validation.check_arrays(record, unpacked)
    except ValueError as error:
        raise RecordError(f"{file} is damaged: {error}") from error
    return unpacked


def read(place: Path, *, digest_required: bool = False) -> Record:
    """Return the record that a path names, a file of a run or BOARD/ID, or raise an error that names the path."""
    if packed.names_one(place):
        return packed.read_one(place)
    try:
        record = Record.parse(read_bytes(place, LARGEST), digest_required=digest_required)
    except ValueError as error:
        raise RecordError(f"{place} is {error}") from error
    if record.id != place.stem:
        raise RecordError(f"{place} is the record of another cell, {record.id}")
    return record


def load(folder: str | Path) -> Records:
    """Return all records under a folder; damaged ones are reported by a warning and left out."""
    root = Path(folder)
    if not os.path.isdir(root):  # noqa: PTH112 (a name too long for a folder is none)
        raise RecordError(f"there is no folder {root}")
    return Records(_readable(root))


def _readable(root: Path) -> Iterator[Record]:
    for file in sources(root):
        if file.name == packed.FILE:
            yield from _packed(file)
            continue
        try:
            yield read(file)
        except RecordError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=3)


def _packed(file: Path) -> list[Record]:
    try:
        records, problems = packed.read(file)
    except RecordError as error:
        records, problems = [], [f"{error}; no record in it counts"]
    for problem in problems:
        warnings.warn(problem, stacklevel=4)
    return [record for _, record in records]


def sources(root: Path) -> Iterator[Path]:
    """Yield the files under a folder that hold records: one per leaderboard or entry, elsewhere one per cell."""
    boards = {file.parent for file in root.rglob(packed.FILE)}
    for file in sorted([*root.rglob("*.json"), *(board / packed.FILE for board in boards)]):
        if any(part.startswith(".") for part in file.relative_to(root).parts):
            # Staged by a command that is running, or was killed.
            continue
        if file.name == packed.FILE or boards.isdisjoint(file.parents):
            yield file


def places(root: Path) -> Iterator[Path]:
    """Yield the paths of records under a folder: their files, or BOARD/ID."""
    for file in sources(root):
        yield from (file.with_name(record.id) for record in _packed(file)) if file.name == packed.FILE else [file]


def write_whole(file: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file atomically; if `lasting`, so that it also survives a power cut."""
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
