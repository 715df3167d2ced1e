"""Arrays of a record: one file of plain arrays, never pickled, identified by its digest."""

import hashlib
import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fflbench.arrays.conversion import PLAIN

LARGEST = 2**30
"""Most bytes that a file of arrays may unpack to."""

MOST = 100
"""Most arrays in one file from outside."""
DIRECTORY_ENTRY = b"PK\x01\x02"
"""Signature of each entry in a zip file's directory."""
LONGEST_HEADER = 10_000

Arrays = dict[str, npt.NDArray[Any]]
"""Arrays of a record by name, too big for JSON."""


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = True) -> bytes:
    """Return the content of a file of arrays, the same bytes for the same arrays; empty for no arrays."""
    if not arrays:
        return b""
    stream = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(stream, **arrays)
    return stream.getvalue()


def unpack_arrays(content: bytes, max_bytes: int | None = None, max_arrays: int | None = MOST) -> Arrays:
    """Return the arrays of a file from anyone, or raise a `ValueError` with the problem.

    Neither the sizes in the file's directory nor the shape in an array's header are trusted: memory is allocated only
    within `limit` bytes, and for at most `most` arrays (None: any number).
    """
    too_many = f"there are more than {max_arrays} arrays in it"
    # Before it is opened, since that reads the whole directory; arrays contain these four bytes by chance only.
    if max_arrays is not None and content.count(DIRECTORY_ENTRY) > 2 * max_arrays:
        raise ValueError(too_many)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            members = packed.infolist()
            if not members:
                raise ValueError("there are no arrays in it")
            if max_arrays is not None and len(members) > max_arrays:
                raise ValueError(too_many)
            return _read_members(packed, members, LARGEST if max_bytes is None else max_bytes)
    except ValueError:
        raise
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is not a zip file, or a damaged one: {error}") from error
    except Exception as error:
        # Damaged archives raise almost anything out of zipfile, zlib and numpy's parser of headers.
        raise ValueError(f"it is damaged: {type(error).__name__}: {error}") from error


def _read_members(packed: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], limit: int) -> Arrays:
    """Return the arrays of an archive's members, of at most `limit` bytes together."""
    left, limit_text = limit, f"the most that is unpacked is {limit:,} bytes"
    arrays: Arrays = {}
    for member in members:
        name = _array_name(member)
        if name in arrays:
            raise ValueError(f"{name[:40]!r} is in it twice")
        _check_readable(member, name[:40])
        with packed.open(member) as stream:
            arrays[name] = _read_array(stream, name[:40], left, limit_text)
        left -= arrays[name].nbytes
    return arrays


def _array_name(member: zipfile.ZipInfo) -> str:
    """Return the name of the array that a member of an archive holds, or raise a `ValueError`."""
    name = member.filename.removesuffix(".npy")
    if name == member.filename:
        raise ValueError(f"{name[:40]!r} in it is no array")
    return name


def _check_readable(member: zipfile.ZipInfo, name: str) -> None:
    """Refuse an encrypted member, or one packed by another method than ours, with a `ValueError`."""
    if member.flag_bits & 0x1:
        raise ValueError(f"{name!r} in it is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} in it is compressed in a way that ours never is")


def _read_array(stream: IO[bytes], name: str, limit: int, limit_text: str) -> npt.NDArray[Any]:
    """Read one array and check its header before its numbers are read."""
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
        raise ValueError(f"{name!r} in it is too large: {limit_text}")
    content = stream.read(size)
    if len(content) < size:
        raise ValueError(f"{name!r} in it holds fewer bytes than its shape needs")
    if stream.read(1):
        raise ValueError(f"{name!r} in it holds more bytes than its shape needs")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if in_columns else "C")


def arrays_digest(content: bytes) -> str:
    """Return the digest by which a record identifies its file of arrays; empty for no content."""
    return hashlib.sha256(content).hexdigest() if content else ""
