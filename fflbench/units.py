"""Stretches of time and amounts of memory, as people write and read them."""

import math
import re

from fflbench.errors import ParameterError

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_duration(text: str | None) -> float:
    """Seconds, from 90, 90s, 30m, 2h or 1d; nothing is for ever."""
    if text is None:
        return math.inf
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    seconds = float(found[1]) * SECONDS[found[2]] if found else 0.0
    if not seconds:
        raise ParameterError(f'"{text}" is no stretch of time such as 90s, 30m or 2h')
    return seconds


def duration(seconds: float) -> str:
    """A stretch of time for people."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a few seconds" if seconds < 10 else f"{seconds:.0f} seconds"


def parse_bytes(text: str) -> int:
    """A size as people write it: 16GB, 500M."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    size = float(found[1]) * BYTES[found[2].upper()] if found else 0.0
    if not 1 <= size < math.inf:
        raise ParameterError(f'"{text}" is no size of memory such as 16GB or 500MB')
    return int(size)


def readable_bytes(count: float) -> str:
    """A number of bytes for people."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
