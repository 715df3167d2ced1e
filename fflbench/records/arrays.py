"""Arrays beside records: one file of plain arrays, never pickled, known by its digest."""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def pack(arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = True) -> bytes:
    """The content of their file, the same bytes for the same arrays; nothing for none."""
    if not arrays:
        return b""
    stream = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(stream, **arrays)
    return stream.getvalue()


def unpack(content: bytes) -> Arrays:
    """The arrays of a file; a `ValueError` where it is damaged."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            return dict(found)
    except (OSError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ValueError(f"no arrays: {error}") from error


def digest(content: bytes) -> str:
    """What a record knows its arrays by."""
    return hashlib.sha256(content).hexdigest() if content else ""
