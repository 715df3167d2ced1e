"""Conditions on the attackers that a rule tolerates, such as "f < n/2", "f < (n - 2)/2" or "f <= n - 3"."""

import re

UNDEFINED = re.compile(r".+ needs f <=? .+, but f = \d+ and n = \d+")
"""Reasons that `undefined_reason` gives, as the histories of records hold them."""


def is_tolerated(condition: str, f: int, n: int) -> bool:
    """Return whether the condition holds for f attackers among n."""
    parsed = re.fullmatch(r"f (<=?) (?:n - (\d+)|(?:n|\(n - (\d+)\))(?:/([1-9]\d*))?)", condition)
    if parsed is None:
        raise ValueError(f'"{condition}" is not a condition on f and n such as "f < (n - 2)/2"')
    left, right = f * int(parsed[4] or 1), n - int(parsed[2] or parsed[3] or 0)
    return left < right if parsed[1] == "<" else left <= right


def largest_tolerated(condition: str, n: int) -> int:
    """Return the largest f for which the condition holds; 0 where there is none."""
    return max((f for f in range(n) if is_tolerated(condition, f, n)), default=0)


def undefined_reason(label: str, condition: str, f: int, n: int) -> str:
    """Return the reason why a rule has no aggregate of n rows for f attackers."""
    return f"{label} needs {condition}, but f = {f} and n = {n}"


def is_undefined_reason(text: str) -> bool:
    """Return whether a round kept its model since a rule was not defined for its f and n."""
    return UNDEFINED.fullmatch(text) is not None
