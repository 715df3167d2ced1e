"""Getting a data set from the network: with a bar, resumable, and checked before it replaces anything."""

import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from filelock import FileLock

from fflbench.data.sources import DataSet, Download, checked, status
from fflbench.errors import DataError
from fflbench.progress import bar

TIMEOUT = 30
CHUNK = 1 << 18


def fetch(data_set: DataSet) -> None:
    """Bring in whatever parts are missing or damaged. A download found in the folder is used instead of the network."""
    folder = data_set.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".fetching.lock"):
            wanted = {found.part.name for found in status(data_set) if found.problem}
            for download in data_set.downloads:
                if wanted.intersection(download.parts):
                    _bring_in(data_set, download)
    except OSError as error:
        raise DataError(
            f"{data_set.title} cannot be stored in {folder} ({error}); "
            "give another folder with --data-dir or $FFLBENCH_DATA"
        ) from error


def _bring_in(data_set: DataSet, download: Download) -> None:
    placed = data_set.folder / download.file_name
    is_archive = not {placed.name, placed.stem}.intersection(download.parts)
    if is_archive and placed.is_file():
        return _store(data_set, download, placed)
    partial = placed.with_name(f"{placed.name}.part")
    resumed = partial.is_file()
    _receive(data_set, download, partial)
    source = partial.rename(placed.with_name(f"downloaded-{placed.name}"))
    try:
        return _store(data_set, download, source)
    except DataError:
        if not resumed:
            raise
    finally:
        source.unlink()
    # What was there before a break may not fit what came after it: start over once, from nothing.
    return _bring_in(data_set, download)


def _store(data_set: DataSet, download: Download, source: Path) -> None:
    expected = {part.name: part for part in data_set.parts}
    unpacked = download.unpack(source)
    for name in download.parts:
        if name not in unpacked:
            raise DataError(f"{source} holds no {name}")
        checked(data_set, expected[name], unpacked[name], source)
    for name in download.parts:
        fresh = data_set.folder / f".{name}.new"
        fresh.write_bytes(unpacked[name])
        fresh.replace(data_set.folder / name)


def _receive(data_set: DataSet, download: Download, partial: Path) -> None:
    reasons = []
    for url in download.urls:
        try:
            return _stream(url, partial, f"Fetching {download.file_name}")
        except (OSError, HTTPException) as error:
            reasons.append(f"{url}: {getattr(error, 'reason', error)}")
    raise DataError(
        f"{data_set.title} could not be downloaded ({'; '.join(reasons)}): run the command again to go on, or put "
        f"{download.file_name} into {data_set.folder} by hand and then run: fflbench data fetch {data_set.name}"
    )


def _stream(url: str, partial: Path, what: str) -> None:
    have = partial.stat().st_size if partial.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if not (have and error.code == 416):
            raise
        # The server has nothing beyond what is here, or other content than that came from.
        partial.unlink()
        return _stream(url, partial, what)
    with response:
        if response.status != 206:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with partial.open("ab" if have else "wb") as file, bar(what, total, unit_bytes=True, done=have) as advance:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                advance(len(chunk))
            received = file.tell()
    if total is not None and received < total:
        raise OSError(f"the connection broke after {received:,} of {total:,} bytes")
