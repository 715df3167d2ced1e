"""Arrays beside records: one file of plain arrays, never pickled, known by its digest."""

import hashlib
import io
import math
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fflbench.conversion import PLAIN

LARGEST = 2**30
"""Bytes that a file of arrays may unpack to."""

MOST = 100
"""Arrays in one file of somebody else."""
DIRECTORY_ENTRY = b"PK\x01\x02"
"""How each member is announced in a zip file's directory."""
LONGEST_HEADER = 10_000

Arrays = dict[str, npt.NDArray[Any]]


def pack(arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = True) -> bytes:
    """The content of their file, the same bytes for the same arrays; nothing for none."""
    if not arrays:
        return b""
    stream = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(stream, **arrays)
    return stream.getvalue()


def unpack(content: bytes, limit: int | None = None, most: int | None = MOST) -> Arrays:
    """Return the arrays of a file that anyone may have written; a `ValueError` says what is wrong with it.

    Neither the sizes that the file's directory claims nor the shape in an array's header are believed: memory is taken
    only for what stays within `limit` bytes, and for `most` arrays (None: any number).
    """
    too_many = f"there are more than {most} arrays in it"
    # Opening an archive reads its whole directory. By chance these four bytes may be in an array, too, but not often.
    if most is not None and content.count(DIRECTORY_ENTRY) > 2 * most:
        raise ValueError(too_many)
    left = LARGEST if limit is None else limit
    told = f"the most that is unpacked is {left:,} bytes"
    found: Arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            members = packed.infolist()
            if not members:
                raise ValueError("there are no arrays in it")
            if most is not None and len(members) > most:
                raise ValueError(too_many)
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name == member.filename:
                    raise ValueError(f"{name[:40]!r} in it is no array")
                if name in found:
                    raise ValueError(f"{name[:40]!r} is in it twice")
                if member.flag_bits & 0x1:
                    raise ValueError(f"{name[:40]!r} in it is encrypted")
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{name[:40]!r} in it is compressed in a way that ours never is")
                with packed.open(member) as stream:
                    found[name] = _read_array(stream, name[:40], left, told)
                left -= found[name].nbytes
    except ValueError:
        raise
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is not a zip file, or a damaged one: {error}") from error
    except Exception as error:
        # Damaged archives raise almost anything out of zipfile, zlib and numpy's parser of headers.
        raise ValueError(f"it is damaged: {type(error).__name__}: {error}") from error
    return found


def _read_array(stream: IO[bytes], name: str, limit: int, told: str) -> npt.NDArray[Any]:
    """One array, its header checked before its numbers are read."""
    from numpy.lib import format as npy

    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        shape, in_columns, dtype = read_header[npy.read_magic(stream)](stream, max_header_size=LONGEST_HEADER)
    except Exception as error:
        raise ValueError(f"{name!r} in it is damaged: no header of an array") from error
    if dtype.kind not in PLAIN:
        raise ValueError(f"{name!r} in it holds something else than numbers")
    if len(shape) > 32 or not all(0 <= size < 2**63 for size in shape):
        raise ValueError(f"{name!r} in it has a shape that no array has")
    size = math.prod(shape) * dtype.itemsize
    if size > limit:
        raise ValueError(f"{name!r} in it is too large: {told}")
    content = stream.read(size)
    if len(content) < size:
        raise ValueError(f"{name!r} in it holds fewer bytes than its shape needs")
    if stream.read(1):
        raise ValueError(f"{name!r} in it holds more bytes than its shape needs")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if in_columns else "C")


def digest(content: bytes) -> str:
    """What a record knows its arrays by."""
    return hashlib.sha256(content).hexdigest() if content else ""
