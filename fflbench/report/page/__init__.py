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

from fflbench import parameters, registry
from fflbench.federation.chain import PLAIN
from fflbench.parameters import Parameter
from fflbench.records.parts import parts_of
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.commands import Commands, plugin_options
from fflbench.report.groups import expanded, measure_of
from fflbench.report.picture import Picture
from fflbench.report.table import Board, Cell, Column, Row, Table
from fflbench.texts import slug

if TYPE_CHECKING:
    from markupsafe import Markup

EMBEDDED = 500
"""Number of records up to which the page embeds all of each; beyond, commands show them."""
POINTS = 30
"""Largest number of points of a history."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def render(board: Board, records: Sequence[Record], drawn: Sequence[Picture], how: Commands) -> str:
    """Return the page; the same records give the same bytes."""
    from markupsafe import Markup

    ordered = sorted(records, key=lambda record: (_name(record), record.configuration["seed"], record.id))
    places = {record.id: place for place, record in enumerate(ordered)}
    names = _defenses(records)
    data = {
        "suite": slug(board.suite),
        "records": [_record(record, whole=len(ordered) < EMBEDDED) for record in ordered],
        "digits": {table.name: [column.digits for column in table.columns] for table in board.tables},
        "good": {table.name: [_good(column) for column in table.columns] for table in board.tables},
    }
    return _fill(
        "page.html.j2",
        board=board,
        how=how,
        count=len(ordered),
        defenses=names,
        words=_words(records),
        sections=[
            (slug(title), title, [_table(table, places) for table in board.tables if table.section == title])
            for title in board.sections
        ],
        figures=[_figure(picture) for picture in drawn],
        js=_own("page.js"),
        data=Markup(_json(data)),  # noqa: S704 (no tag can end it)
    )


def index(boards: Sequence[tuple[str, Board]]) -> str:
    """Return a page that links to all leaderboards, each in a folder of its name."""
    return _fill("index.html.j2", boards=boards)


def _fill(template: str, **values: Any) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    css = _own("page.css")
    script = f"; script-src {_hash(values['js'])}" if "js" in values else ""
    policy = f"default-src 'none'; img-src data:; style-src {_hash(css)}{script}; base-uri 'none'; form-action 'none'"
    return environment.from_string(_file(template)).render(css=css, policy=Markup(policy), **values)  # noqa: S704 (ours)


def _own(name: str) -> "Markup":
    """Return one of this package's files, to be placed between two tags."""
    from markupsafe import Markup

    return Markup(f"\n{_file(name)}\n")  # noqa: S704 (our own file)


def _hash(inline: str) -> str:
    """Return the hash by which a security policy allows an inline script or style, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _json(data: Any) -> str:
    """Return JSON for a script element, without characters that HTML interprets."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _short(number: int) -> str:
    """Return a number in base 36, as the script reads it."""
    text = ""
    while True:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
        if not number:
            return text


def _defenses(records: Sequence[Record]) -> list[str]:
    """Return the defenses' labels, without their deviations."""
    return sorted({record.labels["defense"] for record in expanded(records)})


def _words(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Return title, summary and citation of the names on the page, as far as their plugins are loaded."""
    words: dict[str, tuple[str, str, str, str]] = {}
    for record in records:
        for label, kind, name in _named(record):
            if label not in words and (entry := registry.find(kind, name)):
                words[label] = (label, entry.title, entry.summary, entry.citation)
        for parameter in _deviations(record):
            words.setdefault(parameter.name, (parameter.name, parameter.name, f"{parameter.meaning}.", ""))
    return sorted(words.values())


def _named(record: Record) -> Iterator[tuple[str, Kind, str]]:
    """Yield the labels of a record's parts with their kinds and names; those of a chain without label by name."""
    defense, whole = record.labels["defense"], "rule" in record.configuration["defense"]
    yield defense, Kind.DEFENSE, record.defense
    for part in parts_of(record.configuration):
        if part.name != PLAIN:
            alone = whole and part.name == record.defense
            yield defense if alone else record.labels.get(part.kind, part.name), part.kind, part.name


def _deviations(record: Record) -> Sequence[Parameter]:
    """Return the parameters of a record's deviation, where its transport is loaded."""
    chosen = record.configuration.get("deviation")
    entry = registry.find(Kind.TRANSPORT, chosen["name"]) if chosen else None
    return parameters.of_dataclass(entry.target.deviation) if entry and entry.target.deviation else ()


def _table(table: Table, places: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "heading": ", ".join(table.keys),
        "columns": table.columns,
        "rows": [_row(row, table, places) for row in table.rows],
        "flags": table.flags,
        "notes": table.notes,
    }


def _row(row: Row, table: Table, places: Mapping[str, int]) -> dict[str, Any]:
    flags = table.flags
    return {
        "label": row.label,
        "defense": row.defense,
        "flags": [flags.index(flag) + 1 for flag in row.flags],
        "cells": [_cell(cell, column, places) for cell, column in zip(row.cells, table.columns, strict=True)],
    }


def _cell(cell: Cell, column: Column, places: Mapping[str, int]) -> dict[str, Any]:
    shown: dict[str, str | None] = {"mark": cell.mark, "note": cell.note, "spread": "", "text": cell.text}
    shown |= {"value": None, "half": None}
    if cell.mean is not None:
        shown |= {"value": f"{cell.mean * column.factor:.9g}", "text": column.number(cell.mean)}
        shown["spread"] = cell.interval(column)
        if cell.low is not None and cell.high is not None:
            shown["half"] = f"{(cell.high - cell.low) / 2 * column.factor:.9g}"
    # An empty cell links to no records.
    behind = sorted(places[name] for name in cell.records if name in places and (shown["text"] or shown["note"]))
    return {**shown, "records": " ".join(map(_short, behind))}


def _good(column: Column) -> int:
    """Return whether higher (1) or lower (-1) is better, or neither (0)."""
    return 0 if column.higher_is_better is None or not column.ranked else 1 if column.higher_is_better else -1


def _record(record: Record, *, whole: bool) -> dict[str, Any]:
    """Return the data that the page shows of a record."""
    data: dict[str, Any] = {
        "name": _name(record),
        "seed": record.configuration["seed"],
        "id": record.id,
        **({"plugins": "".join(options)} if (options := plugin_options(record)) else {}),
        **({"status": f"failed: {record.reason}"} if record.status == "failed" else {}),
    }
    if not whole:
        return data
    headline = (metric.name for metric in measure_of([record]).metrics if metric.headline)
    main = next((name for name in headline if isinstance(record.metrics.get(name), int | float)), "")
    what, points = _history(record)
    made = record.manifest
    return {
        **data,
        **({"main": [main, record.metrics[main]]} if main else {}),
        "metrics": {name: value for name, value in record.metrics.items() if isinstance(value, int | float)},
        "configuration": record.configuration,
        "manifest": {key: made.get(key) for key in ("fflbench", "commit", "processor", "python", "libraries")},
        **({"what": what, "points": points} if points else {}),
    }


def _name(record: Record) -> str:
    return " · ".join(record.labels.values())


def _history(record: Record) -> tuple[str, list[float]]:
    """Return the title and at most `POINTS` points of the first curve of a record's history."""
    for curve in measure_of([record]).curves:
        key = next(iter(curve.lines))
        values = [item[key] for item in record.history if isinstance(item.get(key), float | int)]
        if len(values) > 1:
            step = max(1, -(-len(values) // POINTS))
            return curve.title, [float(f"{value:.4g}") for value in values[::step]]
    return "", []


def _figure(picture: Picture) -> dict[str, str]:
    kind, content = next(iter(picture.files.items()))
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    return {
        "section": picture.section,
        "data": f"data:{mime};base64,{base64.b64encode(content).decode()}",
        "alt": picture.caption,
        "numbers": f"{picture.name}.csv" if "csv" in picture.files else "",
    }
