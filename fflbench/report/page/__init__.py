"""A leaderboard as one page that opens from disk: tables that sort, filter and search, and the records behind them.

Everything is in the file, and its security policy lets nothing in from elsewhere. Names and notes may be a plugin's:
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
"""Records up to which all of each is in the page; beyond, commands show them."""
POINTS = 30
"""Of a history, at most."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def render(board: Board, records: Sequence[Record], drawn: Sequence[Picture], how: Commands) -> str:
    """The page; the same records give the same bytes."""
    from markupsafe import Markup

    ordered = sorted(records, key=lambda record: (_name(record), record.configuration["seed"], record.id))
    places = {record.id: place for place, record in enumerate(ordered)}
    names = _defenses(records)
    data = {
        "suite": slug(board.suite),
        "records": [_told(record, whole=len(ordered) < EMBEDDED) for record in ordered],
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
    """A page that leads to all leaderboards, each in a folder of its name."""
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
    """A file of ours as it stands between two tags."""
    from markupsafe import Markup

    return Markup(f"\n{_file(name)}\n")  # noqa: S704 (our own file)


def _hash(inline: str) -> str:
    """Hash by which a security policy knows an inline script or style: no other one runs."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _json(data: Any) -> str:
    """JSON inside a script: without any sign that HTML knows."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _short(number: int) -> str:
    """A number in few letters, as the script reads it."""
    text = ""
    while True:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
        if not number:
            return text


def _defenses(records: Sequence[Record]) -> list[str]:
    """What suites call them, however participants deviate."""
    return sorted({record.labels["defense"] for record in expanded(records)})


def _words(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """What the names on the page stand for, as far as their plugins are here to tell."""
    found: dict[str, tuple[str, str, str, str]] = {}
    for record in records:
        for label, kind, name in _named(record):
            if label not in found and (entry := registry.find(kind, name)):
                found[label] = (label, entry.title, entry.summary, entry.citation)
        for parameter in _deviations(record):
            found.setdefault(parameter.name, (parameter.name, parameter.name, f"{parameter.meaning}.", ""))
    return sorted(found.values())


def _named(record: Record) -> Iterator[tuple[str, Kind, str]]:
    """Yield the labels of a record's parts with their kinds and names; those of a chain without label by name."""
    defense, whole = record.labels["defense"], "rule" in record.configuration["defense"]
    yield defense, Kind.DEFENSE, record.defense
    for part in parts_of(record.configuration):
        if part.name != PLAIN:
            alone = whole and part.name == record.defense
            yield defense if alone else record.labels.get(part.kind, part.name), part.kind, part.name


def _deviations(record: Record) -> Sequence[Parameter]:
    """Parameters of a record's deviation, where its transport is here to tell what they mean."""
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
    told: dict[str, str | None] = {"mark": cell.mark, "note": cell.note, "spread": "", "text": cell.text}
    told |= {"value": None, "half": None}
    if cell.mean is not None:
        told |= {"value": f"{cell.mean * column.factor:.9g}", "text": column.number(cell.mean)}
        told["spread"] = cell.interval(column)
        if cell.low is not None and cell.high is not None:
            told["half"] = f"{(cell.high - cell.low) / 2 * column.factor:.9g}"
    # What shows nothing leads nowhere.
    behind = sorted(places[name] for name in cell.records if name in places and (told["text"] or told["note"]))
    return {**told, "records": " ".join(map(_short, behind))}


def _good(column: Column) -> int:
    """Return which way is better: up, down, or neither."""
    return 0 if column.higher_is_better is None or not column.ranked else 1 if column.higher_is_better else -1


def _told(record: Record, *, whole: bool) -> dict[str, Any]:
    """What the page tells of a record."""
    told: dict[str, Any] = {
        "name": _name(record),
        "seed": record.configuration["seed"],
        "id": record.id,
        **({"plugins": "".join(options)} if (options := plugin_options(record)) else {}),
        **({"status": f"failed: {record.reason}"} if record.status == "failed" else {}),
    }
    if not whole:
        return told
    headline = (metric.name for metric in measure_of([record]).metrics if metric.headline)
    main = next((name for name in headline if isinstance(record.metrics.get(name), int | float)), "")
    what, points = _history(record)
    made = record.manifest
    return {
        **told,
        **({"main": [main, record.metrics[main]]} if main else {}),
        "metrics": {name: value for name, value in record.metrics.items() if isinstance(value, int | float)},
        "configuration": record.configuration,
        "manifest": {key: made.get(key) for key in ("fflbench", "commit", "processor", "python", "libraries")},
        **({"what": what, "points": points} if points else {}),
    }


def _name(record: Record) -> str:
    return " · ".join(record.labels.values())


def _history(record: Record) -> tuple[str, list[float]]:
    """Return the first curve of a record's history, at most so many points."""
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
