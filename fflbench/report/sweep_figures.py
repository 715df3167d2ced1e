"""Figures of sweeps: one panel per metric, or one per defense where several differ only in their f."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fflbench.federation.rule import ORACLE
from fflbench.metrics import Metric
from fflbench.report.dot_plots import draw_error_bars
from fflbench.report.figure_files import PANELS, ReportFigure, figure_with_panels, line_style
from fflbench.report.sweeps import Sweep
from fflbench.report.table_model import Column, TableCell
from fflbench.safe_texts import slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TICKS = 6
"""Most values of a sweep that each have a tick on the axis of a small panel."""
BASELINE_LOOK = {"color": "#bbbbbb", "marker": "", "linestyle": "-", "elinewidth": 0, "capsize": 0}
"""Style of the baseline in panels of other defenses."""
WITHOUT_F = "#000000"
"""Colour of defenses without f."""


def draw_sweep(sweep: Sweep) -> Iterable[ReportFigure]:
    """Draw one panel per metric, or one per defense where several differ only in their f."""
    floors = {metric.floor for metric in sweep.metrics}
    drawn = [metric for metric in sweep.metrics if metric.kind == "number" and metric.name not in floors]
    if any(len(rows) > 1 for rows in sweep.rows_by_f.values()):
        for metric in drawn:
            yield from _draw_panels_by_defense(sweep, metric) if metric.headline else ()
    else:
        yield from _draw_panels_by_metric(sweep, drawn[:PANELS])


def _draw_panels_by_metric(sweep: Sweep, metrics: Sequence[Metric]) -> Iterable[ReportFigure]:
    """Draw one panel per metric and one line per row, by the values of the parameter."""
    lines = {metric.name: _lines_of_sweep(sweep, metric) for metric in metrics}
    metrics = [metric for metric in metrics if lines[metric.name]]
    if not metrics:
        return
    figure, axes = figure_with_panels(len(metrics), sharex=True)
    seen: dict[str, Any] = {}
    for axis, metric in zip(axes, metrics, strict=True):
        column = Column.from_metric(metric)
        for label, line in lines[metric.name].items():
            seen[label] = draw_error_bars(axis, line, column, list(sweep.rows).index(label))
        axis.set_title(column.title, fontsize="medium")
        axis.grid(alpha=0.3)
        axis.set_xticks(sweep.values, [f"{value:g}" for value in sweep.values], fontsize="small")
    yield _sweep_figure(sweep, figure, seen, lines, sweep.title, sweep.parameter)


def _draw_panels_by_defense(sweep: Sweep, metric: Metric) -> Iterable[ReportFigure]:
    """Draw one panel per defense: one line per f that it was given, and the baseline in grey."""
    lines, column = _lines_of_sweep(sweep, metric), Column.from_metric(metric)
    panels = {
        name: own
        for name, rows in sweep.rows_by_f.items()
        if (own := {label: f for label, f in rows.items() if label in lines})
    }
    if not panels:
        return
    figure, axes = figure_with_panels(len(panels), 3.0, 2.2, sharex=True, sharey=True)
    settings = sorted({f for rows in panels.values() for f in rows.values()}, key=lambda f: (f == ORACLE, f))
    seen: dict[str, Any] = {}
    for axis, (name, rows) in zip(axes, panels.items(), strict=True):
        if name != sweep.baseline and sweep.baseline in lines:
            seen[sweep.baseline] = draw_error_bars(axis, lines[sweep.baseline], column, 0, look=BASELINE_LOOK)
        for label, f in rows.items():
            look = _look_of_f(f, settings)
            seen[_text_of_f(f)] = draw_error_bars(axis, lines[label], column, 0, look=look)
            for reason, span in _gaps(lines[label]).items():
                for low, high in span:
                    seen[f"{_text_of_f(f)}: {reason}"] = axis.axvspan(
                        low, high, color=look["color"], alpha=0.15, linewidth=0
                    )
        axis.set_title(name, fontsize="medium")
        axis.grid(alpha=0.3)
        if len(sweep.values) <= MOST_TICKS:
            axis.set_xticks(sweep.values, [f"{value:g}" for value in sweep.values], fontsize="small")
    for axis in axes[-3:]:
        # Shared axes would leave out the ticks of a panel above an empty place.
        axis.tick_params(labelbottom=True)
    order = [sweep.baseline, *map(_text_of_f, settings)]
    legend = {name: seen[name] for name in [*(name for name in order if name in seen), *seen]}
    figure.supylabel(column.title, fontsize="medium")
    title = f"{sweep.title}: {metric.title} by {sweep.parameter}"
    yield _sweep_figure(sweep, figure, legend, {metric.name: lines}, title, f"{metric.name}-{sweep.parameter}")


def _look_of_f(f: str, settings: Sequence[str]) -> dict[str, Any]:
    """Return the style of the line of a defense by its f: dashes and open marks for the true number of attackers."""
    look = line_style([each for each in settings if each].index(f) if f else 0) | {"markersize": 4, "linestyle": "-"}
    oracle = {"linestyle": "--", "markerfacecolor": "white"} if f == ORACLE else {}
    return look | oracle | ({} if f else {"color": WITHOUT_F})


def _text_of_f(f: str) -> str:
    return "f = true number of attackers" if f == ORACLE else f"f = {f}" if f else "without f"


def _gaps(line: Mapping[float, TableCell]) -> dict[str, list[tuple[float, float]]]:
    """Return the intervals of values without a mean, by whether all runs at them are undefined."""
    values = list(line)
    gaps: dict[str, list[tuple[float, float]]] = {}
    for place, (value, cell) in enumerate(line.items()):
        if cell.mean is None:
            before, after = values[max(place - 1, 0)], values[min(place + 1, len(values) - 1)]
            span = (before + value) / 2, (value + after) / 2
            reason = cell.text if cell.text == "undefined" else "no result"
            spans = gaps.setdefault(reason, [])
            if spans and spans[-1][1] == span[0]:
                span = spans.pop()[0], span[1]
            spans.append(span)
    return gaps


def _lines_of_sweep(sweep: Sweep, metric: Metric) -> dict[str, dict[float, TableCell]]:
    """Return the cells of rows that have any mean; those without one are gaps."""
    column = Column.from_metric(metric)
    lines = {
        label: {
            value: cell
            for value in sweep.values
            if (cell := sweep.cell(metric, column, label, value)) and (cell.mean is not None or cell.text)
        }
        for label in sweep.rows_by_metric[metric.name]
    }
    return {label: line for label, line in lines.items() if any(cell.mean is not None for cell in line.values())}


def _sweep_figure(
    sweep: Sweep,
    figure: "Figure",
    seen: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, Mapping[float, TableCell]]],
    title: str,
    name: str,
) -> ReportFigure:
    """Return a figure of a sweep with its title, legend and numbers, by metric, row and value."""
    figure.supxlabel(sweep.parameter, fontsize="medium")
    figure.suptitle(title, fontsize="medium")
    figure.legend(seen.values(), seen, frameon=False, fontsize="small", loc="outside right center")
    numbers: list[list[Any]] = [["metric", "row", sweep.parameter, "mean", "low_95", "high_95", "seeds"]]
    for metric, by_row in lines.items():
        for label, line in by_row.items():
            means = {value: cell for value, cell in line.items() if cell.mean is not None}
            numbers += [[metric, label, value, of.mean, of.low, of.high, of.seeds] for value, of in means.items()]
    caption = title if title != sweep.title else f"{title}: by {sweep.parameter}"
    return ReportFigure(slug(f"sweep-{sweep.title}-{name}"), sweep.measure.section, caption, figure, numbers)
