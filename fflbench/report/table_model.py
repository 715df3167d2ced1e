"""The table model of runs and leaderboards: columns, cells with intervals, rows with flags."""

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from fflbench.metrics import LARGEST, Metric
from fflbench.records.record import Record
from fflbench.report.pairwise_tests import ranks
from fflbench.report.statistics import BySeed, Estimate, format_number
from fflbench.safe_texts import to_printable_line

Mark = Literal["", "best", "tied"]
OVERALL = "All together"
"""Heading of the tables that join all measures."""
SECTIONS = (OVERALL, "Robustness", "Privacy", "Cost")
"""Headings in their order; those of other measures follow."""
RANK = "rank"
"""Name of the column of ranks."""
OTHER_PROCESSOR = "measured on another processor"
"""Explanation of the mark of such a cell, before the processor's name."""
ROUNDING = 1e-9
"""Relative difference between the halves of an interval that is rounding."""


def round_to_twelve_digits(value: float) -> float:
    """Return a number without its last digits, in which libraries may differ."""
    return float(f"{value:.12g}")


def escape_html(text: str) -> str:
    """Return text from plugins and suites in one line, escaped so that HTML shows it literally."""
    return html.escape(to_printable_line(text))


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Model):
    """A column of a table, and how to read its values."""

    name: str
    title: str
    meaning: str
    """Explanation in one sentence."""
    digits: int = 2
    factor: float = 1.0
    """Factor by which values are multiplied for display."""
    powers_from: float = 1e12
    higher_is_better: bool | None = None
    low: float | None = None
    high: float | None = None
    """Bounds of intervals."""
    seeded: bool = True
    """Whether values depend on the seed."""
    ranked: bool = True
    """Whether defenses can be ranked by this column alone."""
    section: str = ""
    """Section of the measure that contributed it to a joined table."""
    signed: bool = Field(default=False, exclude=True)
    """Whether positive values are displayed with a plus sign, as differences are."""

    @classmethod
    def from_metric(cls, metric: Metric, **changes: Any) -> "Column":
        """Return the column of a metric, with its unit in the title."""
        unit = f" {metric.unit}" if metric.unit == "%" else f", {metric.unit}" if metric.unit else ""
        fields: dict[str, Any] = {
            "name": metric.name,
            "title": metric.title,
            "meaning": metric.meaning,
            "digits": metric.digits,
            "factor": metric.factor,
            "powers_from": metric.powers_from,
            "higher_is_better": metric.higher_is_better,
            "seeded": metric.seeded,
            "low": metric.low if metric.low > -LARGEST else None,
            "high": metric.high if metric.high < LARGEST else None,
        } | changes
        return cls(**(fields | {"title": f"{fields['title']}{unit}"}))

    def format_value(self, value: float) -> str:
        """Return a value as displayed."""
        sign = "+" if self.signed and value > 0 else ""
        return sign + format_number(value * self.factor, self.digits, self.powers_from)


class TableCell(_Model):
    """One cell of a table: a value with its interval, or a text, or why there is none."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the 95% interval."""
    seeds: int = 0
    text: str = ""
    mark: Mark = ""
    note: str = ""
    records: tuple[str, ...] = ()
    """The ids of the records behind it."""
    other_processor: str = ""
    """Processor that it was measured on, where that differs from the others of its table."""

    @model_serializer(mode="wrap")
    def _without_empty_processor(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        if not self.other_processor:
            del content["other_processor"]
        return content

    @classmethod
    def from_estimate(cls, estimate: Estimate, column: Column, note: str = "") -> "TableCell":
        """Return the cell of a mean over seeds, with a note where there is a single seed."""
        notes = [note] * bool(note) + ["1 seed"] * (estimate.seeds == 1 and column.seeded)
        ends: dict[str, Any] = {}
        if estimate.interval:
            low, high = estimate.interval
            ends["low"] = round_to_twelve_digits(
                low if column.low is None else max(low, min(column.low, estimate.mean))
            )
            ends["high"] = round_to_twelve_digits(
                high if column.high is None else min(high, max(column.high, estimate.mean))
            )
        return cls(mean=round_to_twelve_digits(estimate.mean), seeds=estimate.seeds, note=", ".join(notes), **ends)

    def with_records(self, records: Iterable[Record]) -> "TableCell":
        """Return the cell with the ids of the records it was made from."""
        return self.model_copy(update={"records": tuple(sorted({record.id for record in records}))})

    def interval_text(self, column: Column) -> str:
        """Return the interval as displayed: a half-width, or both ends where a bound cuts one off."""
        if self.mean is None or self.low is None or self.high is None:
            return ""
        below, above = self.mean - self.low, self.high - self.mean
        if abs(below - above) <= ROUNDING * (abs(self.mean) + above):
            return f"± {column.format_value(above)}"
        return f"{column.format_value(self.low)} to {column.format_value(self.high)}"

    def display_text(self, column: Column) -> str:
        """Return the whole cell as displayed, without its mark."""
        if self.mean is None:
            return f"{self.text} ({self.note})" if self.note and self.text else self.text or self.note
        interval = self.interval_text(column)
        text = column.format_value(self.mean)
        if interval.startswith("±"):
            text, interval = f"{text} {interval}", ""
        inside = ", ".join(filter(None, (interval, self.note)))
        return f"{text} ({inside})" if inside else text

    def apply_mark(self, text: str, bold: str) -> str:
        """Return its text with its mark: best as `bold` formats it, tied with an equals sign."""
        return bold.format(text) if self.mark == "best" else f"= {text}" if self.mark == "tied" else text


class Row(_Model):
    """A row of a table, with its warnings."""

    keys: tuple[str, ...]
    """Texts that name it, one for each of the table's key columns."""
    defense: str
    """Label of its defense, whatever the row's keys."""
    cells: tuple[TableCell, ...]
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Keys as one text."""
        return ", ".join(self.keys)


@dataclass(frozen=True)
class FilledColumn:
    """A column with its cells, by the keys of their rows: a text, or a tuple of several."""

    column: Column
    cells: Mapping[Any, TableCell]
    values: Mapping[Any, BySeed] = field(default_factory=dict)
    """Values by seed of those cells that tests compare."""

    def ranks(self) -> dict[Any, int]:
        """Return the ranks of the compared cells: one more than the number of those that are better by a test."""
        return ranks(self.values, highest=bool(self.column.higher_is_better)) if self.values else {}

    def rank_column(self) -> "list[FilledColumn]":
        """Return the column of ranks, if tests compare any cells."""
        meaning = (
            f"One more than the number of those that are better in {self.column.title.removesuffix(' %')}, by "
            "moderated paired t-tests of all pairs, Holm-corrected. Equal ranks are ties."
        )
        column = Column(name=RANK, title="rank", meaning=meaning, digits=0, higher_is_better=False, seeded=False)
        cells = {key: TableCell(mean=rank, records=self.cells[key].records) for key, rank in self.ranks().items()}
        return [FilledColumn(column, cells)] if cells else []

    def with_marks(self, values: Mapping[Any, BySeed], seeds: set[int]) -> "FilledColumn":
        """Return the column with marks for the best cell and those that no test distinguishes from it, by seed."""
        complete = {
            key: each for key, each in values.items() if set(each) == seeds and self.cells[key].mean is not None
        }
        # A test needs more than one seed.
        if self.column.higher_is_better is None or len(seeds) < 2 or len(complete) < 2:
            return self
        compared = replace(self, values=complete)
        first = [key for key, rank in compared.ranks().items() if rank == 1]
        mark = "best" if len(first) == 1 else "tied"
        marked = {key: self.cells[key].model_copy(update={"mark": mark}) for key in first}
        return replace(compared, cells={**self.cells, **marked})


def best_first(rows: Iterable[Any], columns: Sequence[FilledColumn]) -> list[Any]:
    """Return rows by their values in the first column, the best first, then in the second; those without come last."""

    def sort_key(row: Any) -> list[float]:
        means = [(each.cells[row].mean if row in each.cells else None, each.column) for each in columns[:2]]
        return [math.inf if mean is None else -mean if column.higher_is_better else mean for mean, column in means]

    return sorted(rows, key=sort_key)


class Table(_Model):
    """A table with its rows, columns and notes."""

    name: str = Field(pattern=r"^[\w][\w.-]*$", max_length=120)
    """Name of its files."""
    title: str
    section: str
    keys: tuple[str, ...] = ("defense",)
    """Headings of the columns that name rows."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    in_summary: bool = Field(default=False, exclude=True)
    """Whether `fflbench run` prints it without `--tables all`."""
    is_sweep: bool = Field(default=False, exclude=True)
    """Whether its columns are values of one parameter, of a metric that its notes explain."""
    answers: Literal["leaders", "ranges"] = Field(default="leaders", exclude=True)
    """Sentences above it: who leads in the first column that tests compare, or the range of each column."""

    @classmethod
    def from_columns(
        cls,
        filled: Sequence[FilledColumn],
        rows: Iterable[Any] | None = None,
        flags: Callable[[Any], Iterable[str]] = lambda key: (),
        defense: Callable[[Any], str] = lambda key: key if isinstance(key, str) else key[-1],
        **fields: Any,
    ) -> "Table":
        """Return a table of these columns; rows in the given order, or in that of their cells."""
        order = dict.fromkeys(key for each in filled for key in each.cells) if rows is None else rows
        return cls(
            columns=tuple(each.column for each in filled),
            rows=tuple(
                Row(
                    keys=(key,) if isinstance(key, str) else key,
                    defense=defense(key),
                    cells=tuple(each.cells.get(key, TableCell()) for each in filled),
                    flags=tuple(dict.fromkeys(flags(key))),
                )
                for key in order
            ),
            **fields,
        )

    @property
    def flags(self) -> list[str]:
        """All flags of its rows, each once; a row refers to them by their numbers."""
        return list(dict.fromkeys(flag for row in self.rows for flag in row.flags))

    def flag_numbers(self, row: Row) -> list[int]:
        """Return the numbers of a row's flags in the footnotes."""
        flags = self.flags
        return [flags.index(flag) + 1 for flag in row.flags]

    def keys_with_flag_numbers(self, row: Row) -> list[str]:
        """Return the texts that name a row, the last with the numbers of its flags."""
        flags = "".join(f" ⚑{place}" for place in self.flag_numbers(row))
        return [*row.keys[:-1], f"{row.keys[-1]}{flags}"]

    @property
    def other_processors(self) -> dict[str, str]:
        """Marks of cells that were measured on other processors than the rest, by processor."""
        names = dict.fromkeys(cell.other_processor for row in self.rows for cell in row.cells if cell.other_processor)
        return {name: "†" if place == 1 else f"†{place}" for place, name in enumerate(names, start=1)}

    def cell_text(self, column: Column, cell: TableCell) -> str:
        """Return a cell as displayed, with the mark of another processor, if any."""
        text = cell.display_text(column)
        return f"{text} {self.other_processors[cell.other_processor]}" if cell.other_processor else text

    @property
    def processor_notes(self) -> list[str]:
        """Explanations of the marks of other processors."""
        return [f"{mark} {OTHER_PROCESSOR}: {name}" for name, mark in self.other_processors.items()]

    @property
    def footnotes(self) -> list[str]:
        """Flags with their numbers, marks of other processors, then notes."""
        flags = (f"⚑{place} {flag}" for place, flag in enumerate(self.flags, start=1))
        return [*flags, *self.processor_notes, *self.notes]

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it: best in bold, ties with an equals sign."""
        left, right = (
            f' style="text-align: {side}; white-space: nowrap; padding: 0.1em 0.6em"' for side in ("left", "right")
        )
        heads = [f"<th{left}>{escape_html(key)}</th>" for key in self.keys]
        heads += [
            f'<th{right} title="{escape_html(column.meaning)}">{escape_html(column.title)}</th>'
            for column in self.columns
        ]
        rows = []
        for row in self.rows:
            cells = [f'<th scope="row"{left}>{escape_html(key)}</th>' for key in self.keys_with_flag_numbers(row)]
            cells += [
                f"<td{right}>{cell.apply_mark(escape_html(self.cell_text(column, cell)), '<b>{}</b>')}</td>"
                for column, cell in zip(self.columns, row.cells, strict=True)
            ]
            rows.append(f"<tr>{''.join(cells)}</tr>")
        notes = "<br>".join(map(escape_html, self.footnotes))
        # Names may hold dollar signs, which notebooks would take for formulas.
        return (
            f'<div class="tex2jax_ignore mathjax_ignore"><p><b>{escape_html(self.title)}</b></p>'
            f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"{f'<p><small>{notes}</small></p>' if notes else ''}</div>"
        )


class Board(_Model):
    """All tables of a run or a leaderboard."""

    schema_version: Literal[2] = 2
    suite: str
    title: str
    description: str
    tables: tuple[Table, ...]
    flags: tuple[str, ...]
    """Warnings that concern more than one row."""

    @property
    def summary(self) -> "Board":
        """The board with its summary alone: tables that join all measures, or else the first ones of each measure."""
        return self.model_copy(update={"tables": tuple(table for table in self.tables if table.in_summary)})

    @property
    def sections(self) -> list[str]:
        """Headings of its tables, in order."""
        there = dict.fromkeys(table.section for table in self.tables)
        return [name for name in SECTIONS if name in there] + [name for name in there if name not in SECTIONS]
