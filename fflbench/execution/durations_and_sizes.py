"""Durations and sizes of memory, parsed and formatted."""

import math
import re

from fflbench.errors import ParameterError

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_duration(text: str | None) -> float:
    """Return the seconds of 90, 90s, 30m, 2h or 1d; infinity for None."""
    if text is None:
        return math.inf
    parsed = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    seconds = float(parsed[1]) * SECONDS[parsed[2]] if parsed else 0.0
    if not seconds:
        raise ParameterError(f'"{text}" is not a duration such as 90s, 30m or 2h')
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration as text."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a few seconds" if seconds < 10 else f"{seconds:.0f} seconds"


def parse_bytes(text: str) -> int:
    """Return the bytes of a size such as 16GB or 500M."""
    parsed = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    size = float(parsed[1]) * BYTES[parsed[2].upper()] if parsed else 0.0
    if not 1 <= size < math.inf:
        raise ParameterError(f'"{text}" is not a memory size such as 16GB or 500MB')
    return int(size)


def format_bytes(count: float) -> str:
    """Return a number of bytes as text."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
