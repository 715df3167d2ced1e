"""`fflbench show`: one record's configuration, metrics and accuracy over rounds, and how to run it again."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fflbench.errors import RecordError
from fflbench.plugin_parameters import format_value
from fflbench.records import jsonl_file
from fflbench.records.cell_configuration import registered_parts
from fflbench.records.record import Record
from fflbench.records.store import read_record, record_paths
from fflbench.report.figure_files import draw_text_literally
from fflbench.report.figures import draw_record_history
from fflbench.report.record_groups import measure_class

HEIGHT, WIDTH = 10, 60


def find_record(cell_or_file: str, folder: Path) -> Path:
    """Return the path of a record, given as a file, as BOARD/ID, or by the first letters of an id under a folder."""
    path = Path(cell_or_file)
    if path.suffix == ".json" or os.path.isfile(path):  # noqa: PTH113 (a name too long for a file is none)
        return path
    if jsonl_file.is_record_path(path):
        return path.with_name(read_record(path).id)
    paths = record_paths(folder) if cell_or_file.isalnum() else ()
    matching = [path for path in paths if path.stem.startswith(cell_or_file)]
    if len(matching) != 1:
        what = f"{len(matching)} records" if matching else "no record"
        raise RecordError(f'{what} under {folder} with an id that begins with "{cell_or_file}" (see --out)')
    return matching[0]


def record_text(file: Path) -> str:
    """Return a record as text."""
    record = read_record(file)
    sections = [str(record), _configuration_text(record)]
    if record.status == "failed":
        sections.append(f"failed:\n{record.error}")
    else:
        sections.append(_titled_list("metrics", record.metrics))
        sections.append(_titled_list("facts", record.facts))
        for curve in measure_class([record]).curves:
            for key, name in curve.lines.items():
                # A task may evaluate some rounds only.
                items = [item for item in record.history if isinstance(item.get(key), float | int)]
                if items:
                    ends = items[0].get(curve.x, 1), items[-1].get(curve.x, len(items))
                    text = text_plot([item[key] for item in items], curve.percent, ends)
                    sections.append(" ".join(filter(None, (name, curve.title))) + "\n" + text)
    sections.append(f"run it again:\n  {record.run_command(file, '--force')}")
    return "\n\n".join(sections)


def text_plot(values: Sequence[float], percent: bool, x_limits: tuple[float, float]) -> str:
    """Return a curve as text, one column for each of at most sixty intervals, between the ends of its x-axis."""
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
    first, last = (f"{end:g}" for end in x_limits)
    axis = f"{'':9}{first}{last:>{max(columns - len(first), len(last) + 1)}}"
    return "\n".join([*lines, f"{'':7} └{'─' * columns}", axis])


def _configuration_text(record: Record) -> str:
    lines = []
    shown = [(str(part.kind), part.name, part.parameters) for part in registered_parts(record.configuration)]
    if deviation := record.configuration.get("deviation"):
        shown.append(("deviation", deviation["name"], deviation["parameters"]))
    for kind, name, parameters in shown:
        lines.append(f"{kind}: {name}")
        lines += [f"  {parameter} = {format_value(value)}" for parameter, value in parameters.items()]
    if record.shared_by:
        lines.append(f"shared by: {', '.join(record.shared_by)}")
    made = record.manifest
    lines.append(f"made with fflbench {made.get('fflbench')}, {made.get('libraries')}, on {made.get('processor')}")
    return "\n".join(lines)


def _titled_list(title: str, values: dict[str, Any]) -> str:
    return "\n".join([title, *(f"  {name}: {_value_text(value)}" for name, value in values.items())])


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) >= 0.1 or not value else f"{value:.4g}"
    return f"[{', '.join(map(_value_text, value))}]" if isinstance(value, list) else str(value)


def draw_history(file: Path, figure_file: Path) -> None:
    """Draw the curves of a record's history to a file."""
    record = read_record(file)
    if record.status != "done":
        raise RecordError(f"{file} is the record of a cell that failed: there is nothing to draw")
    with draw_text_literally():
        figure = draw_record_history(record, measure_class([record]).curves)
        if figure is None:
            raise RecordError(f"{file} holds no curve to draw; the pictures of its suite stand in its folder")
        try:
            figure.savefig(figure_file, dpi=150)
        except (OSError, ValueError) as error:
            raise RecordError(f"the picture cannot be written to {figure_file}: {error}") from error
