"""Defenses at the ends of a leaderboard's columns of robustness, so that prose names them as records change."""

import functools
from collections import Counter
from dataclasses import dataclass

from fflbench.measures.robustness_tables import summary_columns, weak_attack_flags
from fflbench.report.record_groups import group_records
from tests.docs.assumptions import KNOWN, robustness_records, worst_columns
from tests.docs.record_figures import Shown


@dataclass(frozen=True)
class Named:
    """A defense with its figures, as pages show them."""

    defense: Shown
    figure: Shown
    other: Shown | None = None


def lowest(board, column):
    """Return the defense with the lowest figure of a column."""
    return _named(board, column, min)


def highest(board, column):
    """Return the defense with the highest figure of a column."""
    return _named(board, column, max)


def largest_gap(board, column, other):
    """Return the defense whose figures of two columns differ most."""
    gaps = _gaps(board, column, other)
    label = max(gaps, key=gaps.get)
    return Named(Shown(f"`{label}`"), *(_text(_column(board, name), label) for name in (column, other)))


def unchanged_count(board, column, other):
    """Return for how many defenses the figures of two columns are the same."""
    return Shown(sum(gap == 0 for gap in _gaps(board, column, other).values()))


def worst_attacks(board):
    """Return the attacks behind worst cases with their numbers of defenses, the most frequent first."""
    cells = _column(board, "worst_accuracy").cells.values()
    counts = Counter(cell.note.split(",")[0] for cell in cells if cell.mean is not None)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Shown(", ".join(f"`{attack}` ({count})" for attack, count in ordered))


def weak_attacks(board):
    """Return the attacks that take less accuracy from FedAvg than noise of honest norm does, or "none"."""
    found = (flag.split(": ", 1)[1].split(" ", 1)[0] for flag in weak_attack_flags(robustness_records(board)))
    return Shown(", ".join(f"`{name}`" for name in found) or "none")


def _named(board, column, choose):
    filled = _column(board, column)
    means = {label: cell.mean for label, cell in filled.cells.items() if cell.mean is not None}
    label = choose(means, key=means.get)
    return Named(Shown(f"`{label}`"), _text(filled, label))


def _gaps(board, column, other):
    first, second = _column(board, column), _column(board, other)
    there = {label: cell.mean for label, cell in second.cells.items() if cell.mean is not None}
    return {
        label: abs(cell.mean - there[label])
        for label, cell in first.cells.items()
        if cell.mean is not None and label in there
    }


def _text(filled, label):
    return Shown(filled.column.format_value(filled.cells[label].mean))


@functools.cache
def _columns(board):
    (group,) = group_records(robustness_records(board))
    return {filled.column.name: filled for filled in summary_columns(group)}


def _column(board, name):
    """Return a column of worst cases by a heading of KNOWN, or a column of the summary by its name."""
    return worst_columns(board)[list(KNOWN).index(name)] if name in KNOWN else _columns(board)[name]
