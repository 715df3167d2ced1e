"""A leaderboard as one page that opens from disk: tables that sort, filter and search, and the records behind them.

Everything is in the file, and its security policy lets nothing in from elsewhere. Names and notes may be a plugin's:
the template escapes them, and data for the script is JSON that no tag can end.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fflbench import registry
from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report import figures, robust
from fflbench.report.commands import Commands, plugin_options
from fflbench.report.panels import Board, Cell, Column, Panel, Row
from fflbench.report.statistics import shown

if TYPE_CHECKING:
    from markupsafe import Markup

EMBEDDED = 500
"""Records up to which all of each is in the page; beyond, their files are linked."""
POINTS = 30
"""Of a history, at most."""
SECTIONS = {"overall": "All together", "robustness": "Robustness", "privacy": "Privacy", "cost": "Cost"}
"""In the order of the page."""
MAIN = ("accuracy", "auc", "psnr", "recovered", "seconds", "bytes")
"""The figure that a record is known by, the first that it has."""
STRATEGIES = (
    "strategy",
    "What attackers do where fragments are exchanged: 1 mix as agreed, 2 submit all poison instead, 3 give poison and "
    "submit clean.",
    "",
)
CAPTIONS = {
    "accuracy": "Accuracy over rounds, mean and 95% interval",
    "decay": "How long partners are found and masks undone",
    "grid": "What was rebuilt, of the first seed",
    "heatmap": "Every attack on every defense",
    "roc": "How well members are told from others",
    "scatter": "Robustness against privacy",
    "trust": "Trust over rounds, of the honest and of attackers",
}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def render(board: Board, records: Sequence[Record], drawn: Mapping[str, bytes], how: Commands) -> str:
    """The page; the same records give the same bytes."""
    from markupsafe import Markup

    ordered = sorted(records, key=lambda record: (_name(record), record.configuration["seed"], record.id))
    places = {record.id: place for place, record in enumerate(ordered)}
    names = _defenses(records)
    data = {
        "suite": slug(board.suite),
        "records": [_told(record, whole=len(ordered) < EMBEDDED) for record in ordered],
        "digits": {panel.name: [column.digits for column in panel.columns] for panel in board.panels},
        "good": {panel.name: [_good(panel, column) for column in panel.columns] for panel in board.panels},
    }
    return _fill(
        "page.html.j2",
        board=board,
        how=how,
        count=len(ordered),
        defenses=names,
        words=_words(records),
        sections=[
            (name, title, of_section)
            for name, title in SECTIONS.items()
            if (of_section := [_panel(panel, places, names) for panel in board.panels if panel.section == name])
        ],
        figures=[_figure(name, content, drawn) for name, content in drawn.items() if is_shown(name)],
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
    """What suites call them, however attackers behave in an exchange."""
    return sorted({robust.defense_of(record) for record in records})


def _words(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """What the names on the page stand for, as far as their plugins are here to tell."""
    found: dict[str, tuple[str, str, str, str]] = {}
    for record in records:
        for kind in (Kind.DEFENSE, Kind.ATTACK, Kind.PRIVACY_ATTACK, Kind.TASK):
            told = record.configuration.get(kind)
            label = robust.defense_of(record) if kind is Kind.DEFENSE else record.labels.get(kind, "")
            if told and label not in found:
                entry = next((entry for entry in registry.entries(kind) if entry.name == told["name"]), None)
                if entry:
                    found[label] = (label, entry.title, entry.summary, entry.citation)
    if any("strategy" in record.labels["defense"] for record in records):
        found["strategy"] = ("strategy", *STRATEGIES)
    return sorted(found.values())


def _panel(panel: Panel, places: Mapping[str, int], names: Sequence[str]) -> dict[str, Any]:
    flags = list(dict.fromkeys(flag for row in panel.rows for flag in row.flags))
    return {
        "name": panel.name,
        "title": panel.title,
        "columns": panel.columns,
        "rows": [_row(row, panel, flags, places, names) for row in panel.rows],
        "flags": flags,
        "notes": panel.notes,
    }


def _row(
    row: Row, panel: Panel, flags: Sequence[str], places: Mapping[str, int], names: Sequence[str]
) -> dict[str, Any]:
    return {
        "label": row.label,
        # Some tables have several rows of one, which say how they differ behind its name.
        "defense": max((name for name in names if row.label.startswith(name)), key=len, default=row.label),
        "flags": [flags.index(flag) + 1 for flag in row.flags],
        "cells": [_cell(cell, column, places) for cell, column in zip(row.cells, panel.columns, strict=True)],
    }


def _cell(cell: Cell, column: Column, places: Mapping[str, int]) -> dict[str, Any]:
    scale = 100 if column.percent else 1
    told: dict[str, str | None] = {"mark": cell.mark, "note": cell.note, "spread": "", "text": cell.text}
    told["value"] = "0" if cell.text == "0" else None
    if cell.mean is not None:
        told |= {"value": f"{cell.mean * scale:.9g}", "text": shown(cell.mean * scale, column.digits)}
        told["spread"] = "" if cell.half_width is None else shown(cell.half_width * scale, column.digits)
    # What shows nothing leads nowhere.
    behind = sorted(places[name] for name in cell.records if name in places and (told["text"] or told["note"]))
    return {**told, "records": " ".join(map(_short, behind))}


def _good(panel: Panel, column: Column) -> int:
    """Which way is better: up, down, or neither. Who withstands one way of looking may not withstand the next."""
    if column.higher_is_better is None or (panel.section == "privacy" and column.name != "worst"):
        return 0
    return 1 if column.higher_is_better else -1


def _told(record: Record, *, whole: bool) -> dict[str, Any]:
    """What the page tells of a record."""
    told: dict[str, Any] = {
        "name": _name(record),
        "seed": record.configuration["seed"],
        "file": f"records/{record.id}.json",
        **({"plugins": "".join(options)} if (options := plugin_options(record)) else {}),
        **({"status": f"failed: {record.reason}"} if record.status == "failed" else {}),
    }
    if not whole:
        return told
    main = next((name for name in MAIN if isinstance(record.metrics.get(name), int | float)), "")
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
    """Accuracy over rounds, or true positives by false ones, at most so many points."""
    for name, what in (("accuracy", "accuracy over rounds"), ("tpr", "true positives as false ones grow")):
        values = [told[name] for told in record.history if isinstance(told.get(name), float | int)]
        if len(values) > 1:
            step = max(1, -(-len(values) // POINTS))
            return what, [float(f"{value:.4g}") for value in values[::step]]
    return "", []


def is_shown(name: str) -> bool:
    """Whether a figure stands on pages; the others are the same in another format, or its numbers."""
    return name.endswith(".svg") or (name.startswith("grid") and name.endswith(".png"))


def _figure(name: str, content: bytes, drawn: Mapping[str, bytes]) -> dict[str, str]:
    stem, _, kind = name.rpartition(".")
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    numbers, (kind_of, _, rest) = f"{stem}.csv", stem.partition("-")
    return {
        "section": figures.section(name),
        "data": f"data:{mime};base64,{base64.b64encode(content).decode()}",
        "alt": f"{CAPTIONS.get(kind_of, kind_of)}: {rest.replace('-', ' ')}",
        "numbers": numbers if numbers in drawn else "",
    }
