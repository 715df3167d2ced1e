"""One record for a reader: configuration, metrics, accuracy over rounds, and how to run it again."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fflbench.errors import RecordError
from fflbench.parameters import quoted
from fflbench.records.record import Record
from fflbench.records.store import read

HEIGHT, WIDTH = 10, 60


def find(cell_or_file: str, folder: Path) -> Path:
    """A record's file: by its path, or by the first letters of its cell's id under a folder."""
    path = Path(cell_or_file)
    if path.suffix == ".json" or os.path.isfile(path):  # noqa: PTH113 (a name too long for a file is none)
        return path
    found = sorted(folder.rglob(f"{cell_or_file}*.json")) if cell_or_file.isalnum() else []
    if len(found) != 1:
        what = f"{len(found)} records" if found else "no record"
        raise RecordError(f'{what} under {folder} with an id that begins with "{cell_or_file}" (see --out)')
    return found[0]


def show(file: Path) -> str:
    """A record as text."""
    record = read(file)
    sections = [str(record), _about(record)]
    if record.status == "failed":
        sections.append(f"failed:\n{record.error}")
    else:
        sections.append(_block("metrics", record.metrics))
        sections.append(_block("facts", record.facts))
        accuracy = [told["accuracy"] for told in record.history if isinstance(told.get("accuracy"), float | int)]
        if "measure" not in record.configuration:
            sections.append("accuracy over rounds\n" + plot(accuracy))
    sections.append(f"run it again:\n  {record.command(file, '--force')}")
    return "\n\n".join(sections)


def plot(values: Sequence[float]) -> str:
    """A curve in text: a column for each of at most sixty stretches of rounds."""
    if not values:
        return "  (no rounds)"
    columns = min(WIDTH, len(values))
    means = []
    for column in range(columns):
        part = values[column * len(values) // columns : (column + 1) * len(values) // columns]
        means.append(sum(part) / len(part))
    low, high = min(means), max(means)
    span = high - low or 1.0
    levels = [round((value - low) / span * (HEIGHT - 1)) for value in means]
    lines = []
    for level in reversed(range(HEIGHT)):
        label = f"{low + span * level / (HEIGHT - 1):7.1%}" if level in (0, HEIGHT - 1) else " " * 7
        lines.append(f"{label} ┤" + "".join("•" if found == level else " " for found in levels).rstrip())
    last = str(len(values))
    return "\n".join([*lines, f"{'':7} └{'─' * columns}", f"{'':9}1{last:>{max(columns - 1, len(last) + 1)}} rounds"])


def _about(record: Record) -> str:
    lines = []
    for kind in (name for name in record.configuration if name != "seed"):
        chosen = record.configuration[kind]
        lines.append(f"{kind}: {chosen['name']}")
        lines += [f"  {name} = {quoted(value)}" for name, value in chosen["parameters"].items()]
    made = record.manifest
    lines.append(f"made with fflbench {made.get('fflbench')}, {made.get('libraries')}, on {made.get('processor')}")
    return "\n".join(lines)


def _block(title: str, values: dict[str, Any]) -> str:
    return "\n".join([title, *(f"  {name}: {_value(value)}" for name, value in values.items())])


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) >= 0.1 or not value else f"{value:.4g}"
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else str(value)
