"""Files of a data set: their folder, checksums and downloads.

A data set is a folder of parts. A part may be plain, `.gz` or `.xz`; its checksum is that of the unpacked content, so
it is the same for all three. Nothing is used before it is checked.
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
from fflbench.progress import track

ENVIRONMENT = "FFLBENCH_DATA"

Contents: TypeAlias = Mapping[str, bytes]

LARGEST = 10**9
"""Most bytes that a part may unpack to if its data set declares no size."""


@dataclass(frozen=True)
class Part:
    """File of a data set, identified by the checksum of its content."""

    name: str
    sha256: str
    size: int = LARGEST
    """Bytes of its content, or the most that it may have: reading stops there."""


@dataclass(frozen=True)
class Download:
    """File on the network, and the parts in it."""

    urls: tuple[str, ...]
    parts: tuple[str, ...]
    unpack: Callable[[Path], Contents]

    @property
    def file_name(self) -> str:
        """Name of the file on disk."""
        return self.urls[0].rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """Data set that comes as files: its parts, their downloads, and their conversion to arrays."""

    name: str
    title: str
    parts: tuple[Part, ...]
    downloads: tuple[Download, ...]
    prepare: Callable[[Contents], Data]
    version: int
    """Version of `prepare`: with a new one all arrays are prepared again."""
    canonical: Callable[[bytes], bytes] = bytes
    """Function that gives a part its canonical form, whose checksum counts, where copies differ in their order."""

    @property
    def folder(self) -> Path:
        """Folder of its files."""
        return data_dir() / self.name

    @property
    def key(self) -> str:
        """Hash of the sources' checksums and the version of their preparation."""
        named = "\n".join([f"{self.name} {self.version}", *(part.sha256 for part in self.parts)])
        return hashlib.sha256(named.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PartStatus:
    """Status of a part: its file and its problem, if any."""

    part: Part
    file: Path | None
    problem: str


def data_dir() -> Path:
    """Return the folder of data sets: `$FFLBENCH_DATA`, which `--data-dir` sets, else in the user's cache."""
    given = os.environ.get(ENVIRONMENT)
    return Path(given).expanduser().absolute() if given else cache_dir() / "data"


def cache_dir() -> Path:
    """Return the user's cache folder for fflbench."""
    return platformdirs.user_cache_path("fflbench")


def status(data_set: DataSet) -> Iterator[PartStatus]:
    """Check every part of a data set and yield the results one by one, since unpacking is slow."""
    for part in data_set.parts:
        file = find(data_set.folder, part.name)
        if file is None:
            yield PartStatus(part, None, "missing")
            continue
        try:
            checked(data_set, part, read(file, part.size), file)
        except DataError as error:
            yield PartStatus(part, file, str(error))
        else:
            yield PartStatus(part, file, "")


def contents(data_set: DataSet) -> dict[str, bytes] | None:
    """Return every part unpacked and checked, or None if one is missing."""
    files = {part: find(data_set.folder, part.name) for part in data_set.parts}
    if not all(files.values()):
        return None
    return {
        part.name: checked(data_set, part, read(file, part.size), file)
        for part, file in track(files.items(), f"Checking {data_set.title}", total=len(files))
        if file
    }


def checked(data_set: DataSet, part: Part, content: bytes, file: Path) -> bytes:
    """Return the content in its canonical form, or raise a `DataError` if its checksum is wrong."""
    try:
        canonical = data_set.canonical(content)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{file} is damaged ({error}); delete it and run: fflbench data fetch {data_set.name}"
        ) from error
    digest = hashlib.sha256(canonical).hexdigest()
    if digest != part.sha256:
        raise DataError(
            f"{file} is not the {part.name} of {data_set.title}: "
            f"its sha256 is {digest[:12]}…, not {part.sha256[:12]}…; "
            f"delete it and run: fflbench data fetch {data_set.name}"
        )
    return canonical


def read(file: Path, limit: int = LARGEST) -> bytes:
    """Return the content of a file, unpacked by its ending; refuse more than `limit` bytes without reading on."""
    try:
        with _opened(file) as stream:
            content = stream.read(limit + 1)
    except (EOFError, OSError, MemoryError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(file, error) from error
    if len(content) > limit:
        raise _too_large(file, limit, "unpacks to" if file.suffix in (".gz", ".xz") else "holds")
    return content


def _opened(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return cast(IO[bytes], gzip.open(file))
    return lzma.open(file) if file.suffix == ".xz" else file.open("rb")


def _too_large(file: Path, limit: int, how: str = "unpacks to") -> DataError:
    return DataError(f"{file} {how} more than {limit:,} bytes, the most it should have; delete it or replace it")


def _unreadable(file: Path, error: BaseException) -> DataError:
    reason = " ".join(str(error).split())
    return DataError(f"{file} cannot be read, it may be truncated ({reason}); delete it or replace it")


def one_file(name: str, limit: int = LARGEST) -> Callable[[Path], Contents]:
    """Return the unpacking function of a download that is one part."""
    return lambda file: {name: read(file, limit)}


class _Bounded:
    """Stream that refuses to read more than a limit at once, whatever size a header claims."""

    def __init__(self, stream: IO[bytes], file: Path, limit: int) -> None:
        self.stream, self.file, self.limit = stream, file, limit

    def read(self, size: int) -> bytes:
        if size > self.limit:
            raise _too_large(self.file, self.limit)
        return self.stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def tar_members(file: Path, limit: int = LARGEST) -> Iterator[tuple[str, bytes]]:
    """Yield every regular file of a compressed tar archive with its path, without writing to disk.

    Files of more than `limit` bytes together are refused before they are read.
    """
    total = 0
    try:
        with gzip.open(file) as packed:
            bounded = cast(IO[bytes], _Bounded(cast(IO[bytes], packed), file, max(limit, tarfile.RECORDSIZE)))
            with tarfile.open(fileobj=bounded, mode="r:") as archive:
                for member in archive:
                    total += member.size
                    if total > limit:
                        raise _too_large(file, limit)
                    stream = archive.extractfile(member) if member.isfile() else None
                    if stream:
                        yield member.name, stream.read()
    except (EOFError, OSError, MemoryError, zlib.error, tarfile.TarError) as error:
        raise _unreadable(file, error) from error


def find(folder: Path, name: str) -> Path | None:
    """Return the file of a part, plain or compressed, or None."""
    candidates = (folder / f"{name}{ending}" for ending in ("", ".gz", ".xz"))
    return next((file for file in candidates if file.is_file()), None)
