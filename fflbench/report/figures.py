"""Figures that every measure gets: curves over histories, heatmaps of tables, sweeps, and one of all measures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fflbench.measures.measure import Curve
from fflbench.metrics import Metric
from fflbench.records.npz_file import Arrays
from fflbench.records.record import Record
from fflbench.report import dot_plots
from fflbench.report.figure_files import (
    PANELS,
    ReportFigure,
    draw_text_literally,
    figure_with_panels,
    line_style,
    with_distinct_names,
)
from fflbench.report.record_groups import (
    RecordGroup,
    SeedRuns,
    attack_runs_by_name,
    group_records,
    is_usable,
    measure_class,
    records_by_measure,
)
from fflbench.report.statistics import Estimate, estimate_mean
from fflbench.report.sweep_figures import draw_sweep
from fflbench.report.sweeps import find_sweeps
from fflbench.report.table_model import OVERALL, RANK, Board, Column, Table
from fflbench.report.worst_cases import strongest_attack
from fflbench.safe_texts import slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WRITTEN = 200
"""Number of cells up to which a heatmap prints its values with a decimal; beyond, cells are small, to fit a page."""
PAGE = 11.0, 8.0
"""Most inches of a large heatmap's cells: with its labels it fits a landscape page."""
MISSING = "\N{MULTIPLICATION SIGN}"
"""Sign in a large heatmap's cells without a mean, for whose text there is no room."""
DASHES = ("--", "-")
"""Dashes of the other lines and of the first one, where every defense has several in its colour."""
TICKS = (0.001, 0.01, 0.1, 1.0)
"""Ticks of logarithmic axes."""

Line = Mapping[float, Estimate]
"""Means over seeds by x."""


def draw_figures(records: Sequence[Record], board: Board, arrays: Callable[[Record], Arrays]) -> list[ReportFigure]:
    """Return all figures that the records allow."""
    drawn: list[ReportFigure] = []
    with draw_text_literally():
        for table in board.tables:
            drawn += _draw_robustness_privacy_scatter(table) if table.section == OVERALL else []
            drawn += [_draw_heatmap(table)] if _can_be_heatmap(table) else []
            drawn += dot_plots.draw_beside_paper(table)
        every = group_records(records)
        heatmaps = {table.name for table in board.tables if _can_be_heatmap(table)}
        for group in every:
            drawn += [] if group.is_sweep_point else dot_plots.draw_headline_metrics(group, heatmaps)
            for curve in group.measure.curves:
                drawn += _draw_curves(group, curve)
        for sweep in find_sweeps(every):
            drawn += draw_sweep(sweep)
        for of_measure in records_by_measure(records).values():
            drawn += measure_class(of_measure).extra_figures(of_measure, arrays)
    return with_distinct_names(drawn)


# Curves


def _draw_curves(group: RecordGroup, curve: Curve) -> Iterable[ReportFigure]:
    """Draw one panel per attack and one line per defense: the mean over seeds, with the 95% interval as a band."""
    lines, names = {attack: _lines_by_row(group, curve, attack) for attack in group.attacks}, [*curve.lines.values()]
    drawn = [attack for attack in _attacks_by_harm(group) if lines[attack]][:PANELS]
    if not drawn:
        return
    figure, axes = figure_with_panels(len(drawn), sharex=True, sharey=True)
    rows = list(dict.fromkeys(row for attack in drawn for row, _ in lines[attack]))
    seen: dict[str, Any] = {}
    for axis, attack in zip(axes, drawn, strict=True):
        for (row, name), line in lines[attack].items():
            look = line_style(rows.index(row)) | ({"linestyle": DASHES[name == names[0]]} if len(names) > 1 else {})
            seen[_line_label(row, name)] = _draw_line(axis, line, curve, look)
        axis.set_title(_panel_title(group, attack), fontsize="medium")
        if curve.logarithmic:
            seen["chance"] = _set_log_axes_with_chance_line(axis)
    figure.supxlabel(curve.x, fontsize="medium")
    figure.supylabel(_y_axis_title(curve), fontsize="medium")
    left = f"; of {len(lines)} attacks the {len(drawn)} that harm {group.baseline} most" * (len(drawn) < len(lines))
    figure.suptitle(f"{group.heading}: {curve.title}{left}", fontsize="medium")
    figure.legend(seen.values(), seen, frameon=False, fontsize="small", loc="outside right center")
    numbers: list[list[Any]] = [["attack", "line", curve.x, "mean", "half_width_95", "seeds"]]
    for attack, of_attack in lines.items():
        for key, line in of_attack.items():
            numbers += [[attack, _line_label(*key), x, of.mean, of.half_width, of.seeds] for x, of in line.items()]
    caption = f"{curve.title[:1].upper()}{curve.title[1:]}: {group.heading}"
    yield ReportFigure(slug(f"{curve.name}-{group.heading}"), group.measure.section, caption, figure, numbers)


def _line_label(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _lines_by_row(group: RecordGroup, curve: Curve, attack: str) -> dict[tuple[str, str], Line]:
    """Return lines by the row of tables, with the attack on it that was chosen, and by the line's own name."""
    lines: dict[tuple[str, str], Line] = {}
    metric = _first_headline_metric(group)
    for defense in group.rows:
        tried = attack_runs_by_name(group, defense, [attack], group.observations)
        best, _ = strongest_attack(metric, tried, group.seeds) if metric else ("", "")
        strongest = [(best, tried[best])] if best in tried else [("", runs) for runs in list(tried.values())[:1]]
        for tactic, runs in tried.items() if curve.every_deviation else strongest:
            for key, name in curve.lines.items():
                if line := means_over_seeds(runs, curve.x, key):
                    lines[_line_label(defense, tactic), name] = line
    return lines


def means_over_seeds(runs: SeedRuns, x: str, y: str) -> Line:
    """Return the mean over seeds at each x that all seeds reach."""
    points: dict[float, list[float]] = {}
    done = [record for record in runs.records.values() if is_usable(record)]
    for record in done:
        for item in record.history:
            if isinstance(item.get(y), int | float) and isinstance(item.get(x), int | float):
                points.setdefault(item[x], []).append(item[y])
    return {at: estimate_mean(values) for at, values in sorted(points.items()) if len(values) == len(done)}


def _first_headline_metric(group: RecordGroup) -> Metric | None:
    return next((metric for metric in group.measure.metrics if metric.headline), None)


def _attacks_by_harm(group: RecordGroup) -> list[str]:
    """Return attacks by the harm they do to the baseline, no attack first."""
    metric = _first_headline_metric(group)

    def harm(attack: str) -> tuple[bool, float]:
        runs = attack_runs_by_name(group, group.baseline, [attack], group.observations).values()
        values = [value for each in runs for value in each.values(metric.name).values()] if metric else []
        size = fmean(values) if values else 0.0
        return attack != group.no_attack, size if metric and metric.higher_is_better else -size

    return sorted(group.attacks, key=harm)


def _y_axis_title(curve: Curve) -> str:
    """Return the name of a curve, or of its only line's values, with their unit."""
    return f"{curve.name}, %" if curve.percent else curve.name if len(curve.lines) > 1 else next(iter(curve.lines))


def _panel_title(group: RecordGroup, attack: str) -> str:
    return "no attack" if attack == group.no_attack and attack else attack


def _draw_line(axis: Any, line: Line, curve: Curve, look: dict[str, Any]) -> Any:
    factor = 100 if curve.percent else 1
    middle = [factor * of.mean for of in line.values()]
    (drawn,) = axis.plot(list(line), middle, **look | {"marker": "" if len(line) > 1 else "o"})
    reach = [factor * (of.half_width or 0) for of in line.values()]
    low, high = ([value - sign * by for value, by in zip(middle, reach, strict=True)] for sign in (1, -1))
    if curve.percent or curve.is_share:
        low, high = [max(0.0, value) for value in low], [min(float(factor), value) for value in high]
    if curve.logarithmic_x:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
    if not curve.logarithmic:
        axis.fill_between(list(line), low, high, color=look["color"], alpha=0.12, linewidth=0)
    return drawn


def _set_log_axes_with_chance_line(axis: Any) -> Any:
    (chance,) = axis.plot(TICKS[:: len(TICKS) - 1], TICKS[:: len(TICKS) - 1], color="#999999", linestyle=":")
    axis.set_xscale("log")
    axis.set_yscale("log")
    for set_ticks, limit in ((axis.set_xticks, axis.set_xlim), (axis.set_yticks, axis.set_ylim)):
        set_ticks(TICKS, [f"{100 * tick:g}%" for tick in TICKS])
        limit(TICKS[0], 1)
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    return chance


def draw_record_history(record: Record, curves: Sequence[Curve]) -> "Figure | None":
    """Draw the history of one record, one panel below the other; None where it has none."""
    runs = SeedRuns.from_records([record])
    drawn = [
        (curve, lines)
        for curve in curves
        if (
            lines := {name: line for key, name in curve.lines.items() if (line := means_over_seeds(runs, curve.x, key))}
        )
    ]
    if not drawn:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3 * len(drawn)), layout="constrained")
    axes = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for axis, (curve, lines) in zip(axes, drawn, strict=True):
        for place, (name, line) in enumerate(lines.items()):
            _draw_line(axis, line, curve, line_style(place)).set_label(name)
        axis.set_xlabel(curve.x)
        axis.set_ylabel(_y_axis_title(curve))
        axis.spines[["top", "right"]].set_visible(False)
        if curve.logarithmic:
            _set_log_axes_with_chance_line(axis)
        if any(lines):
            axis.legend(frameon=False)
    axes[0].set_title(str(record), fontsize="medium")
    return figure


# Tables as figures


def _can_be_heatmap(table: Table) -> bool:
    """Return whether all columns are shares, several of them of one metric."""
    meanings = {column.meaning for column in table.columns}
    several = len(table.columns) > max(2, len(meanings))
    return several and table.section != OVERALL and all(map(_is_ranked_share, table.columns))


def _draw_heatmap(table: Table) -> ReportFigure:
    """Draw a table of shares as a heatmap; bright is good."""
    import numpy as np

    columns = table.columns
    values = np.array([[np.nan if cell.mean is None else 100 * cell.mean for cell in row.cells] for row in table.rows])
    large = values.size > WRITTEN
    figure, (axis,) = (
        figure_with_panels(1, min(PAGE[0], 0.4 * len(columns)), min(PAGE[1], 0.26 * len(table.rows) + 2))
        if large
        else figure_with_panels(1, 0.9 * len(columns), 0.36 * len(table.rows) + 1)
    )
    size, slant = ("x-small", {"rotation": 60, "rotation_mode": "anchor"}) if large else ("small", {"rotation": 20})
    good = np.array([bool(column.higher_is_better) for column in columns])
    bright = np.where(good, values, 100 - values)
    axis.pcolormesh(np.ma.masked_invalid(bright), cmap="cividis", vmin=0, vmax=100)
    axis.invert_yaxis()
    for (row, column), value in np.ndenumerate(values):
        missing = table.rows[row].cells[column].text
        text = (MISSING * bool(missing) if large else missing) if np.isnan(value) else f"{value:.{0 if large else 1}f}"
        colour = "white" if bright[row, column] < 55 else "black"
        axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=size, color=colour)
    heads = [column.title.removesuffix(" %") for column in columns]
    axis.set_xticks(np.arange(len(columns)) + 0.5, heads, ha="right", fontsize=size, **slant)
    axis.set_yticks(np.arange(len(table.rows)) + 0.5, [row.label for row in table.rows], fontsize=size)
    axis.spines[:].set_visible(False)
    explained = f"; {MISSING}: no mean, as where runs diverged" if large and np.isnan(values).any() else ""
    axis.set_title(f"{table.title}, %{explained}", fontsize="medium")
    numbers: list[list[Any]] = [["row", "column", "mean"]]
    for of_row in table.rows:
        numbers += [[of_row.label, column.name, cell.mean] for column, cell in zip(columns, of_row.cells, strict=True)]
    return ReportFigure(slug(f"heatmap-{table.name}"), table.section, table.title, figure, numbers)


def _is_ranked_share(column: Column) -> bool:
    return (column.low, column.high) == (0.0, 1.0) and column.ranked and column.higher_is_better is not None


def _draw_robustness_privacy_scatter(table: Table) -> Iterable[ReportFigure]:
    """Draw robustness against privacy, with cost as size, from the first column of each."""
    first = {column.section: place for place, column in reversed(list(enumerate(table.columns))) if column.name != RANK}
    if not {"Robustness", "Privacy"} <= set(first):
        return
    places = first["Robustness"], first["Privacy"]
    kept, leaked = (table.columns[place] for place in places)
    cost = first.get("Cost")
    points = {
        row.label: [None if place is None else row.cells[place].mean for place in (*places, cost)] for row in table.rows
    }
    full = {label: point for label, point in points.items() if point[0] is not None and point[1] is not None}
    if not full:
        return
    figure, (axis,) = figure_with_panels(1, 6, 4.5)
    most = max((of[2] for of in full.values() if of[2]), default=0.0)
    spots: dict[tuple[float, float], list[str]] = {}
    for place, (label, (robust, private, price)) in enumerate(full.items()):
        x, y = float(private or 0) * leaked.factor, float(robust or 0) * kept.factor
        look = line_style(place)
        size = 60 + 500 * (price / most if price and most else 0)
        axis.scatter(x, y, s=size, color=look["color"], marker=look["marker"], alpha=0.75)
        # Defenses at one point share a label.
        spots.setdefault((round(x, leaked.digits - 1), round(y)), []).append(label)
    middle = sum(axis.get_xlim()) / 2
    for spot, labels in spots.items():
        left = spot[0] > middle
        where: dict[str, Any] = {"ha": "right" if left else "left", "va": "center", "fontsize": "small"}
        offset = (-18 if left else 18, 0)
        axis.annotate(",\n".join(labels), spot, textcoords="offset points", xytext=offset, **where)
    axis.set_xlabel(f"{leaked.title} (less is better)")
    axis.set_ylabel(kept.title)
    axis.margins(0.15)
    axis.grid(alpha=0.3)
    sized = f"; size: {table.columns[cost].title}" if cost is not None else ""
    axis.set_title(f"{table.title}{sized}", fontsize="medium")
    numbers: list[list[Any]] = [
        ["defense", kept.name, leaked.name, *([] if cost is None else [table.columns[cost].name])]
    ]
    numbers += [[label, *point[: len(numbers[0]) - 1]] for label, point in points.items()]
    yield ReportFigure(
        slug(f"scatter-{table.name}"), OVERALL, f"Robustness against privacy: {table.title}", figure, numbers
    )
