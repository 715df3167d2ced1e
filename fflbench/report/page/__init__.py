"""A leaderboard as one HTML page that opens from disk: tables that sort, filter and search, and their records.

Everything is in the file, and its security policy loads nothing from elsewhere. Names and notes may come from plugins:
the template escapes them, and data for the script is JSON that no tag can end.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fflbench import plugin_parameters, registry
from fflbench.federation.chain import PLAIN
from fflbench.plugin_parameters import Parameter
from fflbench.records.cell_configuration import registered_parts
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.answers import answer_sentences
from fflbench.report.figure_files import ReportFigure
from fflbench.report.record_groups import expand_shared_records, measure_class
from fflbench.report.reproduction_commands import ReproductionCommands, plugin_options
from fflbench.report.table_model import Board, Column, Row, Table, TableCell
from fflbench.safe_texts import slug

if TYPE_CHECKING:
    from markupsafe import Markup

EMBEDDED = 500
"""Number of records up to which the page embeds all of each; beyond, commands show them."""
POINTS = 30
"""Largest number of points of a history."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def render_leaderboard(
    board: Board, records: Sequence[Record], figures: Sequence[ReportFigure], commands: ReproductionCommands
) -> str:
    """Return the page; the same records give the same bytes."""
    from markupsafe import Markup

    ordered = sorted(records, key=lambda record: (_joined_labels(record), record.configuration["seed"], record.id))
    places = {record.id: place for place, record in enumerate(ordered)}
    names = _defense_labels(records)
    data = {
        "suite": slug(board.suite),
        "records": [_record_data(record, whole=len(ordered) < EMBEDDED) for record in ordered],
        "digits": {table.name: [column.digits for column in table.columns] for table in board.tables},
        "good": {table.name: [_better_direction(column) for column in table.columns] for table in board.tables},
    }
    return _render_template(
        "page.html.j2",
        board=board,
        how=commands,
        count=len(ordered),
        defenses=names,
        words=_glossary(records),
        sections=[
            (slug(title), title, [_table_data(table, places) for table in board.tables if table.section == title])
            for title in board.sections
        ],
        figures=[_figure_data(picture) for picture in figures],
        js=_inline_file("page.js"),
        data=Markup(_script_safe_json(data)),  # noqa: S704 (no tag can end it)
    )


def render_index(boards: Sequence[tuple[str, Board]]) -> str:
    """Return a page that links to all leaderboards, each in a folder of its name."""
    return _render_template("index.html.j2", boards=boards)


def _render_template(template: str, **values: Any) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    css = _inline_file("page.css")
    script = f"; script-src {_policy_hash(values['js'])}" if "js" in values else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src {_policy_hash(css)}{script}; base-uri 'none'; form-action 'none'"
    )
    return environment.from_string(_read_package_file(template)).render(css=css, policy=Markup(policy), **values)  # noqa: S704 (ours)


def _inline_file(name: str) -> "Markup":
    """Return one of this package's files, to be placed between two tags."""
    from markupsafe import Markup

    return Markup(f"\n{_read_package_file(name)}\n")  # noqa: S704 (our own file)


def _policy_hash(inline: str) -> str:
    """Return the hash by which a security policy allows an inline script or style, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


def _read_package_file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _script_safe_json(data: Any) -> str:
    """Return JSON for a script element, without characters that HTML interprets."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _base_36(number: int) -> str:
    """Return a number in base 36, as the script reads it."""
    text = ""
    while True:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
        if not number:
            return text


def _defense_labels(records: Sequence[Record]) -> list[str]:
    """Return the defenses' labels, without their deviations."""
    return sorted({record.labels["defense"] for record in expand_shared_records(records)})


def _glossary(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Return title, summary and citation of the names on the page, as far as their plugins are loaded."""
    words: dict[str, tuple[str, str, str, str]] = {}
    for record in records:
        for label, kind, name in _labelled_plugins(record):
            if label not in words and (entry := registry.find(kind, name)):
                words[label] = (label, entry.title, entry.summary, entry.citation)
        for parameter in _deviation_parameters(record):
            words.setdefault(parameter.name, (parameter.name, parameter.name, f"{parameter.meaning}.", ""))
    return sorted(words.values())


def _labelled_plugins(record: Record) -> Iterator[tuple[str, Kind, str]]:
    """Yield the labels of a record's parts with their kinds and names; those of a chain without label by name."""
    defense, whole = record.labels["defense"], "rule" in record.configuration["defense"]
    yield defense, Kind.DEFENSE, record.defense
    for part in registered_parts(record.configuration):
        if part.name != PLAIN:
            alone = whole and part.name == record.defense
            yield defense if alone else record.labels.get(part.kind, part.name), part.kind, part.name


def _deviation_parameters(record: Record) -> Sequence[Parameter]:
    """Return the parameters of a record's deviation, where its transport is loaded."""
    chosen = record.configuration.get("deviation")
    entry = registry.find(Kind.TRANSPORT, chosen["name"]) if chosen else None
    return plugin_parameters.parameters_of_dataclass(entry.target.deviation) if entry and entry.target.deviation else ()


def _table_data(table: Table, record_indices: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "answers": " ".join(answer_sentences(table)),
        "heading": ", ".join(table.keys),
        "columns": table.columns,
        "rows": [_row_data(row, table, record_indices) for row in table.rows],
        "flags": table.flags,
        "notes": [*table.processor_notes, *table.notes],
    }


def _row_data(row: Row, table: Table, record_indices: Mapping[str, int]) -> dict[str, Any]:
    flags = table.flags
    return {
        "label": row.label,
        "defense": row.defense,
        "flags": [flags.index(flag) + 1 for flag in row.flags],
        "cells": [
            _cell_data(cell, column, record_indices)
            | {"processor": cell.other_processor, "dagger": table.other_processors.get(cell.other_processor, "")}
            for cell, column in zip(row.cells, table.columns, strict=True)
        ],
    }


def _cell_data(cell: TableCell, column: Column, record_indices: Mapping[str, int]) -> dict[str, Any]:
    shown: dict[str, str | None] = {"mark": cell.mark, "note": cell.note, "spread": "", "text": cell.text}
    shown |= {"value": None, "half": None}
    if cell.mean is not None:
        shown |= {"value": f"{cell.mean * column.factor:.9g}", "text": column.format_value(cell.mean)}
        shown["spread"] = cell.interval_text(column)
        if cell.low is not None and cell.high is not None:
            shown["half"] = f"{(cell.high - cell.low) / 2 * column.factor:.9g}"
    if cell.other_processor:
        # The script neither sorts nor compares a cell without a value.
        shown["value"] = None
    # An empty cell links to no records.
    behind = sorted(
        record_indices[name] for name in cell.records if name in record_indices and (shown["text"] or shown["note"])
    )
    return {**shown, "records": " ".join(map(_base_36, behind))}


def _better_direction(column: Column) -> int:
    """Return whether higher (1) or lower (-1) is better, or neither (0)."""
    return 0 if column.higher_is_better is None or not column.ranked else 1 if column.higher_is_better else -1


def _record_data(record: Record, *, whole: bool) -> dict[str, Any]:
    """Return the data that the page shows of a record."""
    data: dict[str, Any] = {
        "name": _joined_labels(record),
        "seed": record.configuration["seed"],
        "id": record.id,
        **({"plugins": "".join(options)} if (options := plugin_options(record)) else {}),
        **({"status": f"failed: {record.reason}"} if record.status == "failed" else {}),
    }
    if not whole:
        return data
    headline = (metric.name for metric in measure_class([record]).metrics if metric.headline)
    main = next((name for name in headline if isinstance(record.metrics.get(name), int | float)), "")
    what, points = _first_history_curve(record)
    made = record.manifest
    return {
        **data,
        **({"main": [main, record.metrics[main]]} if main else {}),
        "metrics": {name: value for name, value in record.metrics.items() if isinstance(value, int | float)},
        "configuration": record.configuration,
        "manifest": {key: made.get(key) for key in ("fflbench", "commit", "processor", "python", "libraries")},
        **({"what": what, "points": points} if points else {}),
    }


def _joined_labels(record: Record) -> str:
    return " · ".join(record.labels.values())


def _first_history_curve(record: Record) -> tuple[str, list[float]]:
    """Return the title and at most `POINTS` points of the first curve of a record's history."""
    for curve in measure_class([record]).curves:
        key = next(iter(curve.lines))
        values = [item[key] for item in record.history if isinstance(item.get(key), float | int)]
        if len(values) > 1:
            step = max(1, -(-len(values) // POINTS))
            return curve.title, [float(f"{value:.4g}") for value in values[::step]]
    return "", []


def _figure_data(figure: ReportFigure) -> dict[str, str]:
    kind, content = next(iter(figure.files.items()))
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    return {
        "section": figure.section,
        "data": f"data:{mime};base64,{base64.b64encode(content).decode()}",
        "alt": figure.caption,
        "numbers": f"{figure.name}.csv" if "csv" in figure.files else "",
    }
