"""`fflbench show`: one record's configuration, metrics and accuracy over rounds, and how to run it again."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fflbench.errors import RecordError
from fflbench.parameters import quoted
from fflbench.records import packed
from fflbench.records.parts import parts_of
from fflbench.records.record import Record
from fflbench.records.store import places, read
from fflbench.report.figures import draw_record
from fflbench.report.groups import measure_of
from fflbench.report.picture import plain_text

HEIGHT, WIDTH = 10, 60


def find(cell_or_file: str, folder: Path) -> Path:
    """Return the path of a record, given as a file, as BOARD/ID, or by the first letters of an id under a folder."""
    path = Path(cell_or_file)
    if path.suffix == ".json" or os.path.isfile(path):  # noqa: PTH113 (a name too long for a file is none)
        return path
    if packed.names_one(path):
        return path.with_name(read(path).id)
    matching = [path for path in places(folder) if path.stem.startswith(cell_or_file)] if cell_or_file.isalnum() else []
    if len(matching) != 1:
        what = f"{len(matching)} records" if matching else "no record"
        raise RecordError(f'{what} under {folder} with an id that begins with "{cell_or_file}" (see --out)')
    return matching[0]


def show(file: Path) -> str:
    """Return a record as text."""
    record = read(file)
    sections = [str(record), _about(record)]
    if record.status == "failed":
        sections.append(f"failed:\n{record.error}")
    else:
        sections.append(_block("metrics", record.metrics))
        sections.append(_block("facts", record.facts))
        for curve in measure_of([record]).curves:
            for key, name in curve.lines.items():
                values = [item[key] for item in record.history if isinstance(item.get(key), float | int)]
                if values:
                    sections.append(" ".join(filter(None, (name, curve.title))) + "\n" + plot(values, curve.percent))
    sections.append(f"run it again:\n  {record.command(file, '--force')}")
    return "\n\n".join(sections)


def plot(values: Sequence[float], percent: bool = True) -> str:
    """Return a curve as text, one column for each of at most sixty intervals."""
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
        at = low + span * level / (HEIGHT - 1)
        label = (f"{at:7.1%}" if percent else f"{at:7.3g}") if level in (0, HEIGHT - 1) else " " * 7
        lines.append(f"{label} ┤" + "".join("•" if at == level else " " for at in levels).rstrip())
    last = str(len(values))
    return "\n".join([*lines, f"{'':7} └{'─' * columns}", f"{'':9}1{last:>{max(columns - 1, len(last) + 1)}}"])


def _about(record: Record) -> str:
    lines = []
    shown = [(str(part.kind), part.name, part.parameters) for part in parts_of(record.configuration)]
    if deviation := record.configuration.get("deviation"):
        shown.append(("deviation", deviation["name"], deviation["parameters"]))
    for kind, name, parameters in shown:
        lines.append(f"{kind}: {name}")
        lines += [f"  {parameter} = {quoted(value)}" for parameter, value in parameters.items()]
    if record.shared_by:
        lines.append(f"shared by: {', '.join(record.shared_by)}")
    made = record.manifest
    lines.append(f"made with fflbench {made.get('fflbench')}, {made.get('libraries')}, on {made.get('processor')}")
    return "\n".join(lines)


def _block(title: str, values: dict[str, Any]) -> str:
    return "\n".join([title, *(f"  {name}: {_value(value)}" for name, value in values.items())])


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) >= 0.1 or not value else f"{value:.4g}"
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else str(value)


def draw(file: Path, picture: Path) -> None:
    """Draw the curves of a record's history to a file."""
    record = read(file)
    if record.status != "done":
        raise RecordError(f"{file} is the record of a cell that failed: there is nothing to draw")
    with plain_text():
        figure = draw_record(record, measure_of([record]).curves)
        if figure is None:
            raise RecordError(f"{file} holds no curve to draw; the pictures of its suite stand in its folder")
        try:
            figure.savefig(picture, dpi=150)
        except (OSError, ValueError) as error:
            raise RecordError(f"the picture cannot be written to {picture}: {error}") from error
