"""Arrays beside records: one file of plain arrays, never pickled, known by its digest."""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

DAMAGED = (OSError, EOFError, KeyError, TypeError, MemoryError, NotImplementedError, zipfile.BadZipFile, zlib.error)
LARGEST = 2**30
"""Bytes that a file of arrays may unpack to."""

Arrays = dict[str, npt.NDArray[Any]]


def pack(arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = True) -> bytes:
    """The content of their file, the same bytes for the same arrays; nothing for none."""
    if not arrays:
        return b""
    stream = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(stream, **arrays)
    return stream.getvalue()


def unpack(content: bytes, *, limited: bool = True) -> Arrays:
    """The arrays of a file; a `ValueError` where it is damaged, or unpacks to more than anybody should send."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if limited and sum(part.file_size for part in packed.infolist()) > LARGEST:
                raise ValueError("arrays that unpack to more than any of ours")
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            return dict(found)
    except DAMAGED as error:
        raise ValueError(f"no arrays: {error}") from error


def digest(content: bytes) -> str:
    """What a record knows its arrays by."""
    return hashlib.sha256(content).hexdigest() if content else ""
