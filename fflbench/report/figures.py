"""The figures of a leaderboard, readable in grey and by the colour-blind, each with its numbers beside it."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fflbench.records.arrays import Arrays
from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.report import grids, inferences, robust
from fflbench.report.panels import Board, Panel, steady
from fflbench.report.plots import add_files, both, decay, style, trusts
from fflbench.report.statistics import Estimate, estimate
from fflbench.report.texts import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WRITTEN = 200
"""Places of a heatmap up to which each has its number."""
PANELS = 9
"""Attacks whose rounds are drawn; the numbers of all stand beside."""

Table = list[list[Any]]
"""What a figure shows, as lines of a CSV file, the first its header."""


def figures(records: Sequence[Record], board: Board, arrays: Callable[[Record], Arrays]) -> dict[str, bytes]:
    """All figures that the records allow, by file name."""
    made: dict[str, bytes] = {}
    for task in robust.tasks(records):
        add_files(made, _files(f"accuracy-{task.name}", _accuracy(task)))
        add_files(made, _files(f"trust-{task.name}", _trust(task)))
    for task in robust.tasks(records):
        add_files(made, _files(f"heatmap-{task.name}", _heatmap(robust.summary(task))))
    for panel in board.panels:
        if panel.section == "overall":
            add_files(made, _files(f"scatter-{panel.name.removeprefix('overall-')}", _scatter(panel)))
    made |= decay(records) | curves(records)
    return made | grids.reconstructions(records, arrays)


def curves(records: Sequence[Record]) -> dict[str, bytes]:
    """ROC curves of every setting of membership and property inference."""
    made: dict[str, bytes] = {}
    for measure in inferences.MEASURES:
        for title, of_setting in inferences.settings(records, measure).items():
            name = f"roc-{measure}-{title}"
            add_files(made, _files(name, inferences.curves(f"{measure.capitalize()}, {title}", of_setting)))
    return made


def section(name: str) -> str:
    """Where on the page a figure belongs."""
    kinds = {"scatter": "overall", "grid": "privacy", "decay": "privacy", "roc": "privacy"}
    return kinds.get(name.partition("-")[0], "robustness")


def _files(name: str, drawn: "tuple[Figure, Table] | None") -> dict[str, bytes]:
    if drawn is None:
        return {}
    figure, table = drawn
    stem = slug(name)
    steadied = [[steady(value) if isinstance(value, float) else value for value in row] for row in table]
    return both(figure, stem) | {f"{stem}.csv": csv_text(steadied).encode()}


def _figure(width: float, height: float) -> "tuple[Figure, Any]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    axis.spines[["top", "right"]].set_visible(False)
    return figure, axis


def _accuracy(task: robust.Task) -> "tuple[Figure, Table] | None":
    """Accuracy over rounds, a panel an attack: the mean over seeds, with the 95% interval as a band."""
    from matplotlib.figure import Figure

    table: Table = [["attack", "defense", "round", "mean", "half_width_95", "seeds"]]
    curves = {attack: _curves(task, attack) for attack in task.runs}
    for attack, lines in curves.items():
        for label, found in lines.items():
            table += [[attack, label, number, of.mean, of.half_width, of.seeds] for number, of in found.items()]
    shown = [attack for attack in _by_harm(task) if curves[attack]][:PANELS]
    if not shown:
        return None
    labels = list(dict.fromkeys(label for attack in shown for label in curves[attack]))
    columns = min(3, math.ceil(math.sqrt(len(shown))))
    figure = Figure(figsize=(4 * columns + 2, 3 * -(-len(shown) // columns)), layout="constrained")
    axes = list(figure.subplots(-(-len(shown) // columns), columns, sharex=True, sharey=True, squeeze=False).flat)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    drawn = {}
    for axis, attack in zip(axes, shown, strict=False):
        for label, found in curves[attack].items():
            look = style(labels.index(label)) | {"marker": ""}
            means = [100 * of.mean for of in found.values()]
            reach = [100 * (of.half_width or 0) for of in found.values()]
            (drawn[label],) = axis.plot(list(found), means, label=label, **look)
            low = [max(0.0, a - b) for a, b in zip(means, reach, strict=True)]
            high = [min(100.0, a + b) for a, b in zip(means, reach, strict=True)]
            axis.fill_between(list(found), low, high, color=look["color"], alpha=0.12, linewidth=0)
        axis.set_title("no attack" if attack == task.clean else attack, fontsize="medium")
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("round", fontsize="medium")
    figure.supylabel("accuracy, %", fontsize="medium")
    left = f"; of {len(curves)} attacks the {len(shown)} that harm {task.baseline} most" * (len(shown) < len(curves))
    figure.suptitle(f"{task.name}{left}", fontsize="medium")
    figure.legend(drawn.values(), drawn, frameon=False, fontsize="small", loc="outside right center")
    return figure, table


def _curves(task: robust.Task, attack: str) -> dict[str, dict[int, Estimate]]:
    """By defense and strategy, accuracy of each round over seeds."""
    lines = {}
    for name, by_strategy in task.runs[attack].items():
        for strategy, runs in by_strategy.items():
            by_round: dict[int, list[float]] = {}
            for record in runs.records.values():
                for told in record.history:
                    if isinstance(told.get("accuracy"), float):
                        by_round.setdefault(told["round"], []).append(told["accuracy"])
            if by_round:
                label = f"{name}, strategy {strategy}" if len(by_strategy) > 1 else name
                lines[label] = {number: estimate(values) for number, values in sorted(by_round.items())}
    return lines


def _by_harm(task: robust.Task) -> list[str]:
    """Without attack first, then attacks by what they leave of the baseline's accuracy."""

    def left(attack: str) -> float:
        figures = task.figures(attack, task.baseline, "accuracy")
        return fmean(figures.values()) if figures else 1.0

    return sorted(task.runs, key=lambda attack: (attack != task.clean, left(attack)))


def _trust(task: robust.Task) -> "tuple[Figure, Table] | None":
    """Average trust over rounds of the honest and of the attackers, where a defense has any; a line an attack."""
    figure, axis = _figure(8, 4)
    table: Table = [["attack", "who", "round", "mean"]]
    place = 0
    for attack in task.attacks:
        for name, by_strategy in task.runs[attack].items():
            for strategy, runs in by_strategy.items():
                sides: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
                for record in runs.records.values():
                    if record.status == "done":
                        for side, points in zip(sides, trusts(record), strict=True):
                            for number, value in points:
                                side.setdefault(number, []).append(value)
                if not sides[0]:
                    continue
                label = f"{name}, {attack}, strategy {strategy}"
                look = style(place) | {"marker": ""}
                for who, side, dash in (("honest", sides[0], "-"), ("attackers", sides[1], ":")):
                    means = {number: fmean(values) for number, values in sorted(side.items())}
                    text = f"{label}: {who}"
                    axis.plot(list(means), list(means.values()), label=text, **(look | {"linestyle": dash}))
                    table += [[label, who, number, value] for number, value in means.items()]
                place += 1
    if len(table) == 1:
        return None
    axis.set_xlabel("round")
    axis.set_ylabel("average trust")
    axis.set_ylim(-0.03, 1.03)
    axis.set_title(f"{task.name}: trust of the honest and of attackers", fontsize="medium")
    axis.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure, table


def _heatmap(panel: Panel) -> "tuple[Figure, Table] | None":
    """Every defense without attack and under every one: accuracy, and what targeted attacks gain. Bright is good."""
    import numpy as np

    left_out = ("clean_cost", "honest_excluded")
    chosen = [place for place, column in enumerate(panel.columns) if column.percent and column.name not in left_out]
    if not chosen or not panel.rows:
        return None
    figure, axis = _figure(1.6 + 0.9 * len(chosen), 1.2 + 0.36 * len(panel.rows))
    values = np.array(
        [[np.nan if (mean := row.cells[place].mean) is None else 100 * mean for place in chosen] for row in panel.rows]
    )
    good = np.array([bool(panel.columns[place].higher_is_better) for place in chosen])
    bright = np.where(good, values, 100 - values)
    mesh = axis.pcolormesh(np.ma.masked_invalid(bright), cmap="cividis", vmin=0, vmax=100)
    axis.invert_yaxis()
    # Too many numbers are none: then a scale of colours, and the numbers beside.
    written = values if values.size <= WRITTEN else values[:0]
    if written is not values:
        figure.colorbar(mesh, ax=axis, label="accuracy, or 100 less what a targeted attack gains")
    for (row, column), value in np.ndenumerate(written):
        text = panel.rows[row].cells[chosen[column]].text if np.isnan(value) else f"{value:.1f}"
        colour = "white" if bright[row, column] < 55 else "black"
        axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize="small", color=colour)
    titles = [panel.columns[place].title.removesuffix(" %") for place in chosen]
    axis.set_xticks(np.arange(len(chosen)) + 0.5, titles, rotation=20, ha="right", fontsize="small")
    axis.set_yticks(np.arange(len(panel.rows)) + 0.5, [row.label for row in panel.rows], fontsize="small")
    axis.spines[:].set_visible(False)
    axis.set_title(f"{panel.title}, %: accuracy, and what targeted attacks gain", fontsize="medium")
    table: Table = [["defense", "column", "mean"]]
    table += [[row.label, panel.columns[place].name, row.cells[place].mean] for row in panel.rows for place in chosen]
    return figure, table


def _scatter(panel: Panel) -> "tuple[Figure, Table] | None":
    """Robustness against privacy, the server's seconds as size: the best stand at the top left."""
    places = {column.name: place for place, column in enumerate(panel.columns)}
    if not {"worst_accuracy", "leak_alone"} <= set(places):
        return None
    figure, axis = _figure(7, 4.5)
    table: Table = [["defense", "worst_accuracy", "leak_alone_db", "server_seconds"]]
    shown = ("worst_accuracy", "leak_alone", "server_seconds")
    points = {
        row.label: [row.cells[places[name]].mean if name in places else None for name in shown] for row in panel.rows
    }
    most = max((seconds for *_, seconds in points.values() if seconds), default=0.0)
    spots: dict[tuple[int, int], list[str]] = {}
    for place, (label, (accuracy, leak, seconds)) in enumerate(points.items()):
        table.append([label, accuracy, leak, seconds])
        if accuracy is None or leak is None:
            continue
        size = 60 + 500 * (seconds / most if seconds and most else 0)
        look = style(place)
        axis.scatter(leak, 100 * accuracy, s=size, color=look["color"], marker=look["marker"], alpha=0.75, label=label)
        # Where several stand at one place, their names share it.
        spots.setdefault((round(leak), round(100 * accuracy)), []).append(label)
    if not any(accuracy is not None and leak is not None for accuracy, leak, _ in points.values()):
        return None
    middle = sum(axis.get_xlim()) / 2
    for spot, labels in spots.items():
        to_the_left = spot[0] > middle
        where: dict[str, Any] = {"ha": "right" if to_the_left else "left", "va": "center", "fontsize": "small"}
        text = ",\n".join(labels)
        axis.annotate(text, spot, textcoords="offset points", xytext=(-18 if to_the_left else 18, 0), **where)
    axis.set_xlabel("what a server alone rebuilds, dB (less is better)")
    axis.set_ylabel("worst accuracy over attacks, %")
    axis.margins(0.15)
    axis.grid(alpha=0.3)
    axis.set_title(f"{panel.title}; size: the server's seconds", fontsize="medium")
    return figure, table
