"""Stretches of time, as people write and read them."""

import math
import re

from fflbench.errors import ParameterError

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse(text: str | None) -> float:
    """Seconds, from 90, 90s, 30m, 2h or 1d; nothing is for ever."""
    if text is None:
        return math.inf
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not seconds:
        raise ParameterError(f'"{text}" is no stretch of time such as 90s, 30m or 2h')
    return seconds


def duration(seconds: float) -> str:
    """A stretch of time for people."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a few seconds" if seconds < 10 else f"{seconds:.0f} seconds"
