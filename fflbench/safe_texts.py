"""Texts from outside, made safe for files and file names."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@")
"""Characters that begin a formula in spreadsheets."""


LONGEST = 100
"""Most bytes of a file's name, without prefix and ending."""


def slug(text: str) -> str:
    """Return any text as the name of a file, limited in bytes as file systems do."""
    name = re.sub(r"[^\w.]+", "-", text).strip("-.").lower()
    return name.encode()[:LONGEST].decode(errors="ignore").strip("-.") or "unnamed"


def to_printable_line(text: str) -> str:
    """Return a text in one line, with a space for everything that cannot be printed."""
    return " ".join(_replace_unprintable_by_spaces(text).split())


def make_distinct_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: itself, or with a number behind it."""
    there, number, chosen = set(taken), 2, name
    while chosen in there:
        chosen, number = f"{name}-{number}", number + 1
    return chosen


def count_with_noun(number: int, what: str) -> str:
    """Return a number with its noun, in the plural for any number but 1."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return the content of a CSV file, in which no text is a formula."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([_defuse_formula(value) if isinstance(value, str) else value for value in row] for row in rows)
    return stream.getvalue()


def _replace_unprintable_by_spaces(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _defuse_formula(text: str) -> str:
    shown = _replace_unprintable_by_spaces(text)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) else shown
