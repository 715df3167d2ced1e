"""Download of data sets: with a progress bar, resumable, and checked before it replaces anything."""

import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from filelock import FileLock

from fflbench.data.dataset_files import DataSet, Download, check_files, verify_checksum
from fflbench.errors import DataError
from fflbench.progress import progress_bar

TIMEOUT = 30
CHUNK = 1 << 18


def fetch(data_set: DataSet) -> None:
    """Download files that are missing or damaged; an archive in the folder is used instead of the network."""
    if not _needed_downloads(data_set):
        return
    folder = data_set.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".fetching.lock"):
            needed = _needed_downloads(data_set)
            for place, download in enumerate(needed):
                try:
                    _download_or_reuse_archive(data_set, download)
                except _DownloadError as failed:
                    files = ", ".join(each.file_name for each in needed[place:])
                    raise DataError(
                        f"{data_set.title} could not be downloaded ({failed}): run the command again to resume, or put "
                        f"{files} into {folder} by hand and then run: fflbench data fetch {data_set.name}"
                    ) from failed
    except OSError as error:
        raise DataError(
            f"{data_set.title} cannot be stored in {folder} ({error}); "
            "give another folder with --data-dir or $FFLBENCH_DATA"
        ) from error


class _DownloadError(Exception):
    """No address returned the expected file."""


def _needed_downloads(data_set: DataSet) -> list[Download]:
    missing = {each.file.name for each in check_files(data_set) if each.problem}
    return [download for download in data_set.downloads if missing.intersection(download.files)]


def _download_or_reuse_archive(data_set: DataSet, download: Download) -> None:
    target = data_set.folder / download.file_name
    is_archive = not {target.name, target.stem}.intersection(download.files)
    if is_archive and target.is_file():
        return _unpack_and_store(data_set, download, target)
    # With the same ending, which decides how it is unpacked.
    partial = target.with_name(f"partial-{target.name}")
    reasons = []
    for url in download.urls:
        # A resumed download may not fit the partial file: then start over once, from nothing.
        for _ in range(2 if partial.is_file() else 1):
            try:
                _download_to_file(url, partial, f"Fetching {download.file_name}")
                _unpack_and_store(data_set, download, partial)
                return partial.unlink()
            except (OSError, HTTPException) as error:
                reasons.append(f"{url}: {getattr(error, 'reason', error)}")
                break
            except DataError as error:
                reasons.append(f"{url}: {error}")
                partial.unlink()
    raise _DownloadError("; ".join(reasons))


def _unpack_and_store(data_set: DataSet, download: Download, source: Path) -> None:
    expected = {file.name: file for file in data_set.files}
    unpacked = download.unpack(source)
    for name in download.files:
        if name not in unpacked:
            raise DataError(f"{source} does not contain {name}")
        verify_checksum(data_set, expected[name], unpacked[name], source)
    for name in download.files:
        new_file = data_set.folder / f".{name}.new"
        new_file.write_bytes(unpacked[name])
        new_file.replace(data_set.folder / name)


def _download_to_file(url: str, partial: Path, what: str) -> None:
    have = partial.stat().st_size if partial.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if have and error.code == 416:
            # The server has nothing beyond the partial file; the checksum decides whether it is complete.
            return
        raise
    with response:
        if response.status != 206:
            have = 0
        length = response.headers.get("Content-Length") or ""
        total = have + int(length) if length.isdecimal() else None
        with (
            partial.open("ab" if have else "wb") as file,
            progress_bar(what, total, unit_bytes=True, done=have) as advance,
        ):
            while chunk := response.read(CHUNK):
                file.write(chunk)
                advance(len(chunk))
            received = file.tell()
    if total is not None and received < total:
        raise OSError(f"the connection broke after {received:,} of {total:,} bytes")
