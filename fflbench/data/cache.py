"""Cache of prepared data sets: arrays that are computed once and memory-mapped afterwards.

The arrays are next to the data if that folder is writable, else in the user's cache, else they are prepared again each
time. Their folder is named after the checksums of their sources and the version of their preparation, and they have
checksums of their own.
"""

import functools
import hashlib
import json
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from fflbench.data.dataset_files import DataSet, cache_dir, find_data_file, read_checked_files
from fflbench.data.download import fetch
from fflbench.data.examples import Data, Examples
from fflbench.errors import DataError

_prepared_only: ContextVar[bool] = ContextVar("prepared_only", default=False)


class NotPreparedError(DataError):
    """Data set that would have to be prepared first, where nothing may be written."""


@contextmanager
def loading_only_prepared() -> Iterator[None]:
    """Load only what is prepared already, and write nothing; other sets raise `NotPreparedError`."""
    token = _prepared_only.set(True)
    try:
        yield
    finally:
        _prepared_only.reset(token)


def load(data_set: DataSet) -> Data:
    """Return a data set from its prepared arrays, else from its files, else from the network."""
    prepared = _find_prepared(data_set)
    if prepared:
        return prepared
    if _prepared_only.get():
        raise NotPreparedError(f"{data_set.title} is not prepared yet")
    folder = next((folder for folder in _cache_folders(data_set) if _is_writable(folder)), None)
    if folder is None:
        warnings.warn(f"{data_set.title} is prepared again each time: no cache folder can be written", stacklevel=2)
        return _prepare_from_files(data_set)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".preparing.lock"):
        return _find_prepared(data_set) or _write_prepared_arrays(
            folder / data_set.cache_key, _prepare_from_files(data_set)
        )


def is_prepared(data_set: DataSet) -> bool:
    """Return whether loading needs no source files."""
    return any(os.path.isdir(folder / data_set.cache_key) for folder in _cache_folders(data_set))  # noqa: PTH112


def is_available(data_set: DataSet) -> bool:
    """Return whether loading needs no network."""
    return is_prepared(data_set) or all(find_data_file(data_set.folder, file.name) for file in data_set.files)


def _cache_folders(data_set: DataSet) -> tuple[Path, Path]:
    return data_set.folder / ".prepared", cache_dir() / "prepared" / data_set.name


def _find_prepared(data_set: DataSet) -> Data | None:
    for folder in _cache_folders(data_set):
        place = folder / data_set.cache_key
        if os.path.isdir(place):  # noqa: PTH112 (a folder that may not be entered is no folder, rather than an error)
            try:
                return _open_prepared_arrays(place)
            # Damaged files raise almost anything out of the parsers of JSON and of numpy's headers.
            except Exception as error:
                warnings.warn(
                    f"the prepared arrays in {place} are damaged and are prepared again ({error})", stacklevel=3
                )
    return None


def _prepare_from_files(data_set: DataSet) -> Data:
    contents = read_checked_files(data_set)
    if contents is None:
        fetch(data_set)
        contents = read_checked_files(data_set)
    if contents is None:
        raise DataError(f"{data_set.title} has no source for some of its files (fflbench data status)")
    return data_set.prepare(contents)


def _write_prepared_arrays(place: Path, data: Data) -> Data:
    """Write all arrays into a new folder, then rename it, so that it is complete or absent."""
    arrays = {"x_train": data.train.x, "y_train": data.train.y, "x_test": data.test.x, "y_test": data.test.y}
    try:
        for leftover in place.parent.glob(".new-*"):
            shutil.rmtree(leftover)
        new_folder = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
        try:
            for name, array in arrays.items():
                np.save(new_folder / f"{name}.npy", array, allow_pickle=False)
            sums = {name: _checksum(new_folder / f"{name}.npy") for name in arrays}
            (new_folder / "about.json").write_text(json.dumps({"sha256": sums, "facts": dict(data.facts)}), "utf-8")
            if place.exists():
                shutil.rmtree(place)
            new_folder.rename(place)
        except BaseException:
            shutil.rmtree(new_folder, ignore_errors=True)
            raise
        return _open_prepared_arrays(place)
    except OSError as error:
        warnings.warn(f"the prepared arrays could not be kept in {place.parent} ({error})", stacklevel=4)
        return data


def _open_prepared_arrays(place: Path) -> Data:
    if others := [file.name for file in place.iterdir() if not file.is_file()]:
        # Reading a named pipe would wait for a writer.
        raise ValueError(f"{others[0]} is not a file")
    about = json.loads((place / "about.json").read_text("utf-8"))

    def mapped_array(name: str) -> npt.NDArray[Any]:
        file = place / f"{name}.npy"
        if _cached_checksum(file) != about["sha256"][name]:
            raise ValueError(f"the checksum of {file.name} does not match")
        # Copy on write: torch requires writable memory, but no write may reach the file or the next cell, which maps
        # it again. Pages that are never written are in memory once for all workers.
        mapped: npt.NDArray[Any] = np.load(file, mmap_mode="c", allow_pickle=False)
        return mapped

    train = Examples(mapped_array("x_train"), mapped_array("y_train"))
    return Data(train, Examples(mapped_array("x_test"), mapped_array("y_test")), about["facts"])


def _cached_checksum(file: Path) -> str:
    """Return the checksum of a file, computed once per process unless the file changes."""
    now = file.stat()
    return _checksum_by_file_stat(file, now.st_ino, now.st_size, now.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _checksum_by_file_stat(file: Path, *_: int) -> str:
    return _checksum(file)


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_writable(folder: Path) -> bool:
    """Return whether new files may go to a folder: never to a read-only one, even for a user who may write anywhere."""
    existing = next(place for place in (folder, *folder.parents) if os.path.exists(place))  # noqa: PTH110
    anyone_may = os.stat(existing).st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)  # noqa: PTH116
    return os.path.isdir(existing) and bool(anyone_may) and os.access(existing, os.W_OK)  # noqa: PTH112
