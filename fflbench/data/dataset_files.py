"""Files of a data set: their folder, checksums and downloads.

A data set is a folder of files. A file may be plain, `.gz` or `.xz`; its checksum is that of the unpacked content, so
it is the same for all three. No file is used before it is checked.
"""

import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import platformdirs

from fflbench.data.examples import Data
from fflbench.errors import DataError
from fflbench.progress import track_progress

ENVIRONMENT = "FFLBENCH_DATA"

Contents: TypeAlias = Mapping[str, bytes]

MAX_BYTES = 10**9
"""Most bytes that a file may unpack to if its data set declares no size."""


@dataclass(frozen=True)
class DataFile:
    """File of a data set, identified by the checksum of its content."""

    name: str
    sha256: str
    size: int = MAX_BYTES
    """Bytes of its content, or the most that it may have: reading stops there."""


@dataclass(frozen=True)
class Download:
    """File on the network, and the data files in it."""

    urls: tuple[str, ...]
    files: tuple[str, ...]
    """Names of the data files in it."""
    unpack: Callable[[Path], Contents]

    @property
    def file_name(self) -> str:
        """Name of the file on disk."""
        return self.urls[0].rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """Data set that comes as files: their names and checksums, downloads, and conversion to arrays."""

    name: str
    title: str
    files: tuple[DataFile, ...]
    downloads: tuple[Download, ...]
    prepare: Callable[[Contents], Data]
    version: int
    """Version of `prepare`: with a new one all arrays are prepared again."""
    canonical: Callable[[bytes], bytes] = bytes
    """Function that gives a file its canonical form, whose checksum counts, where copies differ in their order."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers."""
    features: tuple[str, ...] = ()
    """Names of the features, in the order of their columns, if they have names."""

    @property
    def folder(self) -> Path:
        """Folder of its files."""
        return data_dir() / self.name

    @property
    def cache_key(self) -> str:
        """Hash of the sources' checksums and the version of their preparation."""
        text = "\n".join([f"{self.name} {self.version}", *(file.sha256 for file in self.files)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class FileStatus:
    """Status of a data file: its path and its problem, if any."""

    file: DataFile
    path: Path | None
    problem: str


def data_dir() -> Path:
    """Return the folder of data sets: `$FFLBENCH_DATA`, which `--data-dir` sets, else in the user's cache."""
    given = os.environ.get(ENVIRONMENT)
    return Path(given).expanduser().absolute() if given else cache_dir() / "data"


def cache_dir() -> Path:
    """Return the user's cache folder for fflbench."""
    return platformdirs.user_cache_path("fflbench")


def check_files(data_set: DataSet) -> Iterator[FileStatus]:
    """Check every file of a data set and yield the results one by one, since unpacking is slow."""
    for file in data_set.files:
        path = find_data_file(data_set.folder, file.name)
        if path is None:
            yield FileStatus(file, None, "missing")
            continue
        try:
            verify_checksum(data_set, file, read_unpacked(path, file.size), path)
        except DataError as error:
            yield FileStatus(file, path, str(error))
        else:
            yield FileStatus(file, path, "")


def read_checked_files(data_set: DataSet) -> dict[str, bytes] | None:
    """Return the content of every file, unpacked and checked, or None if one is missing."""
    paths = {file: find_data_file(data_set.folder, file.name) for file in data_set.files}
    if not all(paths.values()):
        return None
    return {
        file.name: verify_checksum(data_set, file, read_unpacked(path, file.size), path)
        for file, path in track_progress(paths.items(), f"Checking {data_set.title}", total=len(paths))
        if path
    }


def verify_checksum(data_set: DataSet, file: DataFile, content: bytes, path: Path) -> bytes:
    """Return the content in its canonical form, or raise a `DataError` if its checksum is wrong."""
    try:
        canonical = data_set.canonical(content)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{path} is damaged ({error}); delete it and run: fflbench data fetch {data_set.name}"
        ) from error
    digest = hashlib.sha256(canonical).hexdigest()
    if digest != file.sha256:
        raise DataError(
            f"{path} is not the {file.name} of {data_set.title}: "
            f"its sha256 is {digest[:12]}…, not {file.sha256[:12]}…; "
            f"delete it and run: fflbench data fetch {data_set.name}"
        )
    return canonical


def read_unpacked(file: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a file, unpacked by its ending; refuse more than `limit` bytes without reading on."""
    try:
        with _open_unpacked(file) as stream:
            content = stream.read(limit + 1)
    except (EOFError, OSError, MemoryError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable_error(file, error) from error
    if len(content) > limit:
        raise _too_large_error(file, limit, "unpacks to" if file.suffix in (".gz", ".xz") else "holds")
    return content


def _open_unpacked(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return cast(IO[bytes], gzip.open(file))
    return lzma.open(file) if file.suffix == ".xz" else file.open("rb")


def _too_large_error(file: Path, limit: int, how: str = "unpacks to") -> DataError:
    return DataError(f"{file} {how} more than {limit:,} bytes, the most it should have; delete it or replace it")


def _unreadable_error(file: Path, error: BaseException) -> DataError:
    reason = " ".join(str(error).split())
    return DataError(f"{file} cannot be read, it may be truncated ({reason}); delete it or replace it")


def single_file_unpacker(name: str, limit: int = MAX_BYTES) -> Callable[[Path], Contents]:
    """Return the unpacking function of a download that is one data file."""
    return lambda file: {name: read_unpacked(file, limit)}


class _BoundedStream:
    """Stream that refuses to read more than a limit at once, whatever size a header claims."""

    def __init__(self, stream: IO[bytes], file: Path, limit: int) -> None:
        self.stream, self.file, self.limit = stream, file, limit

    def read(self, size: int) -> bytes:
        if size > self.limit:
            raise _too_large_error(self.file, self.limit)
        return self.stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def tar_members(file: Path, limit: int = MAX_BYTES) -> Iterator[tuple[str, bytes]]:
    """Yield every regular file of a compressed tar archive with its path, without writing to disk.

    Files of more than `limit` bytes together are refused before they are read.
    """
    total = 0
    try:
        with gzip.open(file) as packed:
            bounded = cast(IO[bytes], _BoundedStream(cast(IO[bytes], packed), file, max(limit, tarfile.RECORDSIZE)))
            with tarfile.open(fileobj=bounded, mode="r:") as archive:
                for member in archive:
                    total += member.size
                    if total > limit:
                        raise _too_large_error(file, limit)
                    stream = archive.extractfile(member) if member.isfile() else None
                    if stream:
                        yield member.name, stream.read()
    except (EOFError, OSError, MemoryError, zlib.error, tarfile.TarError) as error:
        raise _unreadable_error(file, error) from error


def find_data_file(folder: Path, name: str) -> Path | None:
    """Return the path of a data file, plain or compressed, or None."""
    candidates = (folder / f"{name}{ending}" for ending in ("", ".gz", ".xz"))
    return next((path for path in candidates if path.is_file()), None)
