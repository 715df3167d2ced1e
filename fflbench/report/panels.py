"""The tables of a leaderboard as data, and as Markdown, CSV, JSON and LaTeX. The same panels give the same bytes."""

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fflbench.records.record import Record
from fflbench.report.render import escape
from fflbench.report.statistics import Estimate, shown
from fflbench.report.texts import csv_text, printable

Mark = Literal["", "best", "tied"]


def steady(value: float) -> float:
    """A number without the last digits, in which libraries may differ."""
    return float(f"{value:.12g}")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Model):
    """What a column shows."""

    name: str
    title: str
    meaning: str
    """One sentence for who does not know it."""
    digits: int = 2
    percent: bool = False
    higher_is_better: bool | None = None


class Cell(_Model):
    """One place in a table: a figure with its interval, or a text, or why there is none."""

    mean: float | None = None
    half_width: float | None = None
    """Of the 95% interval over seeds."""
    seeds: int = 0
    text: str = ""
    mark: Mark = ""
    note: str = ""
    records: tuple[str, ...] = ()
    """The ids of the records behind it."""

    def behind(self, records: Iterable[Record]) -> "Cell":
        """The same, with the records it was made from."""
        return self.model_copy(update={"records": tuple(sorted({record.id for record in records}))})

    @classmethod
    def of(cls, figure: Estimate, mark: Mark = "", note: str = "") -> "Cell":
        """A figure over seeds; one seed says so."""
        notes = [note] * bool(note) + ["1 seed"] * (figure.seeds == 1)
        half_width = None if figure.half_width is None else steady(figure.half_width)
        return cls(
            mean=steady(figure.mean), half_width=half_width, seeds=figure.seeds, mark=mark, note=", ".join(notes)
        )


class Row(_Model):
    """One line, with what a reader must be warned of."""

    label: str
    cells: tuple[Cell, ...]
    flags: tuple[str, ...] = ()


class Panel(_Model):
    """One table."""

    name: str = Field(pattern=r"^[\w][\w.-]*$", max_length=120)
    """Of its files."""
    title: str
    section: Literal["overall", "robustness", "privacy", "cost"]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


class Board(_Model):
    """A whole leaderboard."""

    schema_version: Literal[1] = 1
    suite: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    flags: tuple[str, ...]
    """What concerns more than one row."""


def figure_text(column: Column, cell: Cell) -> str:
    """A cell as a reader sees it, without its mark."""
    if cell.mean is None:
        text = cell.text
    else:
        scale = 100 if column.percent else 1
        text = shown(cell.mean * scale, column.digits)
        if cell.half_width is not None:
            text += f" ± {shown(cell.half_width * scale, column.digits)}"
    return f"{text} ({cell.note})" if cell.note and text else text or cell.note


def to_markdown(panel: Panel) -> str:
    """A table as GitHub shows it: best in bold, ties with an equals sign."""
    lines = [f"### {escape(panel.title)}", ""]
    lines.append("| defense | " + " | ".join(escape(column.title) for column in panel.columns) + " |")
    lines.append("|---|" + "---:|" * len(panel.columns))
    for row in panel.rows:
        cells = [
            _marked(escape(figure_text(column, cell)), cell.mark, "**{}**")
            for column, cell in zip(panel.columns, row.cells, strict=True)
        ]
        label = escape(row.label) + "".join(f" ⚑{place}" for place in _places(panel, row))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += ["", *(line for note in (*_flag_notes(panel), *panel.notes) for line in (escape(note), ""))]
    return "\n".join(lines)


def to_csv(panel: Panel) -> str:
    """A line a figure."""
    header = ["defense", "column", "mean", "half_width_95", "seeds", "text", "mark", "note", "flags"]
    rows = [
        [
            *(row.label, column.name, cell.mean, cell.half_width, cell.seeds, cell.text, cell.mark, cell.note),
            "; ".join(row.flags),
        ]
        for row in panel.rows
        for column, cell in zip(panel.columns, row.cells, strict=True)
    ]
    return csv_text([header, *rows])


def to_latex(panel: Panel) -> str:
    """A table for a paper; it needs the package booktabs."""
    lines = [
        f"% {_latex(panel.title)}; needs \\usepackage{{booktabs}}",
        f"\\begin{{tabular}}{{l{'r' * len(panel.columns)}}}",
        "\\toprule",
        "Defense & " + " & ".join(_latex(column.title) for column in panel.columns) + " \\\\",
        "\\midrule",
    ]
    for row in panel.rows:
        cells = [
            _marked(_latex(figure_text(column, cell)), cell.mark, "\\textbf{{{}}}")
            for column, cell in zip(panel.columns, row.cells, strict=True)
        ]
        marks = ",".join(str(place) for place in _places(panel, row))
        # Braces, since a bracket after a line's end would be taken for its option.
        label = f"{{{_latex(row.label)}}}" + (f"$^{{{marks}}}$" if marks else "")
        lines.append(f"{label} & {' & '.join(cells)} \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    return "\n".join([*lines, *(f"\\par {_latex(note)}" for note in (*_flag_notes(panel), *panel.notes)), ""])


def to_json(board: Board) -> str:
    """Everything, to be read by programs; it is read back and checked before it is handed out."""
    text = board.model_dump_json(indent=1)
    Board.model_validate_json(text)
    return text + "\n"


def _marked(text: str, mark: Mark, bold: str) -> str:
    return bold.format(text) if mark == "best" else f"= {text}" if mark == "tied" else text


def _flags(panel: Panel) -> list[str]:
    return list(dict.fromkeys(flag for row in panel.rows for flag in row.flags))


def _places(panel: Panel, row: Row) -> list[int]:
    return [_flags(panel).index(flag) + 1 for flag in row.flags]


def _flag_notes(panel: Panel) -> Sequence[str]:
    return [f"⚑{place} {flag}" for place, flag in enumerate(_flags(panel), start=1)]


LATEX = {
    "\\": "\\textbackslash{}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "{": "\\{",
    "}": "\\}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "±": "$\\pm$",
    "<": "$<$",
    ">": "$>$",
    "⚑": "",
}


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in printable(text))
