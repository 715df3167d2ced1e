"""The files of a data set: where they lie, whether they are what they should be, how to get them.

A set is a folder of parts. A part may stand plain, `.gz` or `.xz`; its checksum is that of the unpacked content, so it
holds for all three. Nothing is used before it is checked.
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
"""Bytes that a part may unpack to where its set does not say how large it is."""


@dataclass(frozen=True)
class Part:
    """One file of a set, known by the checksum of its content."""

    name: str
    sha256: str
    size: int = LARGEST
    """Bytes of its content, or the most it may have: a file that unpacks to more is not read on."""


@dataclass(frozen=True)
class Download:
    """A file on the network, and the parts that are in it."""

    urls: tuple[str, ...]
    parts: tuple[str, ...]
    unpack: Callable[[Path], Contents]

    @property
    def file_name(self) -> str:
        """What it is called on disk."""
        return self.urls[0].rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """A set that comes as files: its parts, where to get them, and how they become arrays."""

    name: str
    title: str
    parts: tuple[Part, ...]
    downloads: tuple[Download, ...]
    prepare: Callable[[Contents], Data]
    version: int
    """Of `prepare`: a new one makes all prepared arrays anew."""
    canonical: Callable[[bytes], bytes] = bytes
    """Brings a part to the form whose checksum counts, where one content has several spellings."""

    @property
    def folder(self) -> Path:
        """Where its files are looked for."""
        return data_dir() / self.name

    @property
    def key(self) -> str:
        """Stands for the sources' checksums and the way they are prepared."""
        named = "\n".join([f"{self.name} {self.version}", *(part.sha256 for part in self.parts)])
        return hashlib.sha256(named.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PartStatus:
    """What is known of a part: where it is, and what is wrong with it."""

    part: Part
    file: Path | None
    problem: str


def data_dir() -> Path:
    """`$FFLBENCH_DATA`, which `--data-dir` sets, else the user's cache."""
    given = os.environ.get(ENVIRONMENT)
    return Path(given).expanduser().absolute() if given else cache_dir() / "data"


def cache_dir() -> Path:
    """The user's cache folder for fflbench."""
    return platformdirs.user_cache_path("fflbench")


def status(data_set: DataSet) -> Iterator[PartStatus]:
    """Check every part of a set; one at a time, since unpacking takes its time."""
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
    """Every part unpacked and checked, or nothing where one is missing."""
    files = {part: find(data_set.folder, part.name) for part in data_set.parts}
    if not all(files.values()):
        return None
    return {
        part.name: checked(data_set, part, read(file, part.size), file)
        for part, file in track(files.items(), f"Checking {data_set.title}", total=len(files))
        if file
    }


def checked(data_set: DataSet, part: Part, content: bytes, file: Path) -> bytes:
    """The content in its canonical form, if its checksum holds."""
    try:
        canonical = data_set.canonical(content)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{file} is damaged ({error}); delete it and run: fflbench data fetch {data_set.name}"
        ) from error
    found = hashlib.sha256(canonical).hexdigest()
    if found != part.sha256:
        raise DataError(
            f"{file} is not the {part.name} of {data_set.title}: its sha256 is {found[:12]}…, not {part.sha256[:12]}…; "
            f"delete it and run: fflbench data fetch {data_set.name}"
        )
    return canonical


def read(file: Path, limit: int = LARGEST) -> bytes:
    """The content of a file, unpacked by its ending; more than `limit` bytes are refused, and not held in memory."""
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
    """How to unpack a download that is one part."""
    return lambda file: {name: read(file, limit)}


class _Bounded:
    """A stream of which nobody reads more than so many bytes at once, whatever a header claims."""

    def __init__(self, stream: IO[bytes], file: Path, limit: int) -> None:
        self.stream, self.file, self.limit = stream, file, limit

    def read(self, size: int) -> bytes:
        if size > self.limit:
            raise _too_large(self.file, self.limit)
        return self.stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def tar_members(file: Path, limit: int = LARGEST) -> Iterator[tuple[str, bytes]]:
    """Every regular file of a packed tar archive by its path, read without touching the disk.

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
    """Where a part stands, plain or packed."""
    candidates = (folder / f"{name}{ending}" for ending in ("", ".gz", ".xz"))
    return next((file for file in candidates if file.is_file()), None)
