"""Dot plots: one line per defense, one mark per attack or observation, or for our values and a paper's."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fflbench.report.figure_files import ReportFigure, figure_with_panels, line_style
from fflbench.report.metric_tables import attacks_or_observations, column_cell, headline_table_name
from fflbench.report.published_tables import PAPERS_VALUE
from fflbench.report.record_groups import RecordGroup
from fflbench.report.table_model import Column, Table, TableCell
from fflbench.safe_texts import slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS_TO_DRAW = 4
"""Least number of rows that a figure beside a table is worth."""
APART = 0.25
"""Distance of our mark from a paper's, in lines, so that neither hides the other."""

Cells = Mapping[tuple[str, str], TableCell]
"""Cells of a panel by the labels of their line and of their mark."""


def draw_headline_metrics(group: RecordGroup, heatmaps: Collection[str]) -> Iterable[ReportFigure]:
    """Draw headline metrics that no heatmap shows: one panel per metric."""
    metrics = [
        metric
        for metric in group.measure.metrics
        if metric.headline and headline_table_name(group, metric) not in heatmaps
    ]
    panels = []
    for metric in metrics:
        column = Column.from_metric(metric)
        cells = {
            (defense, name): cell
            for defense in group.rows
            for name in attacks_or_observations(group, metric)
            if (cell := column_cell(group, metric, column, defense, name)).mean is not None
        }
        panels += [(column, cells)] if cells else []
    if panels:
        marks = group.observations if group.measure.observed else group.attacks
        figure = _draw_panels(panels, list(group.rows), list(marks), group.heading)
        name = slug(f"dots-{group.heading}")
        yield ReportFigure(name, group.measure.section, group.heading, figure, _numbers(panels))


def draw_beside_paper(table: Table) -> Iterable[ReportFigure]:
    """Draw our values and a paper's, if a table has both: one panel per metric."""
    places = {column.name: place for place, column in enumerate(table.columns)}
    panels = []
    for name, ours in places.items():
        if papers := places.get(name + PAPERS_VALUE):
            found = {
                (row.label, mark): row.cells[place]
                for row in table.rows
                for mark, place in (("ours", ours), ("the paper's", papers))
                if row.cells[place].mean is not None
            }
            panels.append((table.columns[ours], found))
    if panels and len(table.rows) >= ROWS_TO_DRAW:
        rows = [row.label for row in table.rows]
        figure = _draw_panels(panels, rows, ["ours", "the paper's"], table.title, APART)
        yield ReportFigure(f"dots-{table.name}", table.section, table.title, figure, _numbers(panels))


def _draw_panels(
    panels: Sequence[tuple[Column, Cells]], lines: Sequence[str], marks: Sequence[str], title: str, apart: float = 0.0
) -> "Figure":
    figure, axes = figure_with_panels(len(panels), 4, 0.3 * len(lines) + 1.2, sharey=True)
    seen: dict[str, Any] = {}
    for axis, (column, cells) in zip(axes, panels, strict=True):
        for (line, mark), cell in cells.items():
            place = marks.index(mark)
            at = lines.index(line) + apart * (place - 0.5)
            seen[mark] = draw_error_bars(axis, {at: cell}, column, place, upright=False)
        if column.low is not None and column.low >= 0 and needs_log_axis([cell.mean or 0.0 for cell in cells.values()]):
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.minorticks_off()
        axis.set_yticks(range(len(lines)), lines, fontsize="small")
        axis.set_title(column.title, fontsize="medium")
        axis.grid(alpha=0.3, axis="x")
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize="medium")
    if len(seen) > 1:
        figure.legend(seen.values(), seen, frameon=False, fontsize="small", loc="outside right center")
    return figure


def _numbers(panels: Sequence[tuple[Column, Cells]]) -> list[list[Any]]:
    header: list[Any] = ["metric", "defense", "column", "mean", "low_95", "high_95", "seeds"]
    return [header] + [
        [column.name, line, mark, cell.mean, cell.low, cell.high, cell.seeds]
        for column, cells in panels
        for (line, mark), cell in cells.items()
    ]


def draw_error_bars(
    axis: Any,
    cells: Mapping[float, TableCell],
    column: Column,
    index: int,
    *,
    upright: bool = True,
    look: Mapping[str, Any] | None = None,
) -> Any:
    """Draw cells with their intervals, connected by a line where values are vertical; a cell without a mean is a gap.

    `look` replaces parts of the style that the index decides.
    """
    style = {"capsize": 2} | line_style(index) | dict(look or {})
    means = [math.nan if cell.mean is None else float(cell.mean) for cell in cells.values()]
    ends = [
        [column.factor * (0.0 if end is None else abs(end - mean)) for end, mean in zip(side, means, strict=True)]
        for side in ([cell.low for cell in cells.values()], [cell.high for cell in cells.values()])
    ]
    drawn = [column.factor * mean for mean in means]
    if upright:
        return axis.errorbar(list(cells), drawn, yerr=ends, **style)
    return axis.errorbar(drawn, list(cells), xerr=ends, **(style | {"linestyle": "none"}))


def needs_log_axis(values: Sequence[float]) -> bool:
    """Return whether positive values differ by so much that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > 100 * min(values)
