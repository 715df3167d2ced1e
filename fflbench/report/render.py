"""Tables for a terminal, for Markdown and for a spreadsheet."""

from collections.abc import Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fflbench.report.costs import Sheet
from fflbench.report.tables import Metric, Table, Value
from fflbench.report.texts import csv_text, printable


def to_terminal(tables: Sequence[Table], console: Console) -> None:
    """Print tables, the best figures in bold."""
    for table in tables:
        shown = RichTable(title=Text(table.title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
        shown.add_column("defense", overflow="fold")
        for metric in table.metrics:
            shown.add_column(metric.title, justify="right", overflow="fold")
        for row in table.rows:
            cells = [
                Text(_text(metric, value), style="bold" if value.best else "" if value.estimate else "red")
                for metric, value in zip(table.metrics, row.values, strict=True)
            ]
            shown.add_row(Text(row.label, style="" if row.attacked else "dim"), *cells)
        console.print(shown)
        _print_notes(table.notes, console)


def to_markdown(tables: Sequence[Table]) -> str:
    """All tables of robustness."""
    lines = [
        "Mean over seeds ± half of the 95% interval (Student's t). Best mean in bold.",
        "",
    ]
    for table in tables:
        lines += [f"## {escape(table.title)}", ""]
        lines.append(f"| defense | {' | '.join(metric.title for metric in table.metrics)} |")
        lines.append(f"|---|{'---:|' * len(table.metrics)}")
        for row in table.rows:
            texts = [
                f"**{_text(metric, value)}**" if value.best else _text(metric, value)
                for metric, value in zip(table.metrics, row.values, strict=True)
            ]
            lines.append(f"| {escape(row.label)} | {' | '.join(texts)} |")
        lines += ["", *(line for note in table.notes for line in (escape(note), ""))]
    return "\n".join(lines)


def to_csv(tables: Sequence[Table]) -> str:
    """A line a figure."""
    columns = ["task", "attack", "defense", "metric", "mean", "half_width_95", "seeds", "note", "flags"]
    rows: list[list[Any]] = [columns]
    for table in tables:
        for row in table.rows:
            for metric, value in zip(table.metrics, row.values, strict=True):
                found = value.estimate
                figures = (found.mean, found.half_width, found.seeds) if found else (None, None, None)
                place = [table.task, table.attack, row.label, metric.name]
                rows.append([*place, *figures, value.note, "; ".join(row.flags)])
    return csv_text(rows)


def sheets_to_terminal(sheets: Sequence[Sheet], console: Console) -> None:
    """Print tables of texts."""
    for sheet in sheets:
        shown = RichTable(title=Text(sheet.title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
        for place, column in enumerate(sheet.columns):
            shown.add_column(column, justify=_justify(sheet, place), overflow="fold")
        for row in sheet.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)
        _print_notes(sheet.notes, console)


def _print_notes(notes: Sequence[str], console: Console) -> None:
    for note in notes:
        console.print(Text(note, style="dim"))
    if notes:
        console.print()


def sheets_to_markdown(sheets: Sequence[Sheet]) -> str:
    """All tables of texts."""
    lines: list[str] = []
    for sheet in sheets:
        lines += [f"## {escape(sheet.title)}", "", f"| {' | '.join(sheet.columns)} |"]
        rules = ("---:" if _justify(sheet, place) == "right" else "---" for place in range(len(sheet.columns)))
        lines.append(f"|{'|'.join(rules)}|")
        lines += [f"| {' | '.join(map(escape, row))} |" for row in sheet.rows]
        lines += ["", *(line for note in sheet.notes for line in (escape(note), ""))]
    return "\n".join(lines)


def _justify(sheet: Sheet, place: int) -> Literal["left", "right"]:
    """Columns of figures to the right."""
    figures = all(row[place][:1].isdigit() or not row[place] for row in sheet.rows)
    return "right" if figures and sheet.rows else "left"


def _text(metric: Metric, value: Value) -> str:
    if value.estimate is None:
        return value.note
    text = metric.text(value.estimate)
    return f"{text} ({value.note})" if value.note else text


def escape(text: str) -> str:
    """Text from plugins and suites, as Markdown shows it letter by letter."""
    for character in "\\`*_{}[]<>()#+!|~":
        text = text.replace(character, f"\\{character}")
    return printable(text)
