"""Bounded reading of files that anyone may have written: records, entries, digests, tables and a run's status."""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from fflbench.errors import RecordError

DEEPEST = 64
"""Most nested lists and objects; records have six."""
LARGEST_INTEGER = 2**64
AT_LEAST = 2**20
"""Bytes that are requested from a file that reports no size."""

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_bytes(file: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; raise a `RecordError` that names it otherwise."""
    try:
        # Opening a named pipe for reading would otherwise wait for a writer.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(handle, "rb") as stream:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise RecordError(f"{file} is {KINDS.get(stat.S_IFMT(info.st_mode), 'something else')}, not a file")
            # Python allocates the memory before it reads, so a high limit cannot be requested.
            content = b"" if info.st_size > limit else stream.read(min(limit, max(info.st_size, AT_LEAST)) + 1)
    except IsADirectoryError as error:
        raise RecordError(f"{file} is a folder, not a file") from error
    except (OSError, ValueError) as error:
        raise RecordError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if max(info.st_size, len(content)) > limit:
        raise RecordError(f"{file} is larger than {limit:,} bytes, the most that is read of such a file")
    return content


def read_json(file: Path, limit: int) -> Any:
    """Return the value of a JSON file of at most `limit` bytes; raise a `RecordError` that names it otherwise."""
    content = read_bytes(file, limit)
    try:
        return parse_json(content)
    except ValueError as error:
        raise RecordError(f"{file} is damaged: {error}") from error


def parse_json(content: bytes) -> Any:
    """Return the value of a JSON text, or raise a `ValueError` if it is invalid or unusable in tables.

    Numbers that are not finite or beyond 64 bits, lone surrogates (which no file can hold) and deeply nested lists are
    refused.
    """
    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_parse_finite_float,
            parse_int=_parse_64_bit_integer,
        )
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    _check_nesting_and_texts(value)
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _parse_finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _parse_64_bit_integer(text: str) -> int:
    digits = len(text.lstrip("-"))
    if digits > 20:
        raise ValueError(f"an integer of {digits} digits is too large")
    value = int(text)
    if abs(value) >= LARGEST_INTEGER:
        raise ValueError("an integer beyond 64 bits is too large")
    return value


def _check_nesting_and_texts(value: Any) -> None:
    """Refuse lone surrogates and deep nesting, without recursion."""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, str):
                _refuse_lone_surrogates(each)
            elif isinstance(each, list):
                inner += each
            elif isinstance(each, dict):
                for name in each:
                    _refuse_lone_surrogates(name)
                inner += each.values()
        if not inner:
            return
        level = inner
    raise ValueError(f"it is nested more than {DEEPEST} deep")


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text holds a lone surrogate, which is no letter") from None
