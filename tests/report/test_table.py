"""Cells, columns and rows of tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fflbench.metrics import Metric, share
from fflbench.report.statistics import estimate_mean
from fflbench.report.table_model import Board, Column, Row, Table, TableCell

ACCURACY = Column.from_metric(share("accuracy", "accuracy", "Share that is right.", higher_is_better=True))
LOSS = Column.from_metric(Metric(name="loss", title="loss", meaning="Loss.", digits=3, powers_from=1e4))
SECONDS = Column.from_metric(
    Metric(name="seconds", title="server", meaning="Seconds.", unit="s", low=0.0, seeded=False)
)


def displayed_mean(values, column):
    return TableCell.from_estimate(estimate_mean(values), column).display_text(column)


def test_a_column_has_the_unit_in_its_title():
    assert [column.title for column in (ACCURACY, LOSS, SECONDS)] == ["accuracy %", "loss", "server, s"]


def test_a_mean_is_shown_with_the_half_of_scipys_interval():
    values = [0.3, 0.42, 0.51]
    half = stats.t.ppf(0.975, 2) * stats.sem(values)
    assert displayed_mean(values, ACCURACY) == f"{100 * np.mean(values):.2f} ± {100 * half:.2f}"


def test_an_interval_that_0_or_100_percent_cuts_is_shown_by_its_ends():
    values = [0.9, 0.99, 1.0]
    low, _ = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert displayed_mean(values, ACCURACY) == f"{100 * np.mean(values):.2f} ({100 * low:.2f} to 100.00)"
    assert displayed_mean([0.0, 0.02], ACCURACY).startswith("1.00 (0.00 to ")


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_intervals_of_shares_hold_their_mean_and_stay_within_0_and_1(values):
    cell = TableCell.from_estimate(estimate_mean(values), ACCURACY)
    assert 0 <= cell.low <= cell.mean <= cell.high <= 1


def test_intervals_stay_within_the_least_and_greatest_figure_that_a_metric_declares():
    cell = TableCell.from_estimate(estimate_mean([0.0, 2.0]), SECONDS)
    assert (cell.mean, cell.low) == (1.0, 0.0)
    assert cell.high > 10


def test_a_difference_of_shares_may_be_negative():
    column = ACCURACY.model_copy(update={"low": -1.0})
    assert TableCell.from_estimate(estimate_mean([-0.1, -0.2, -0.3]), column).low < -0.3
    assert TableCell.from_estimate(estimate_mean([-1.0, -0.5]), column).low == -1.0


@pytest.mark.parametrize(("value", "text"), [(9999.0, "9999.000"), (10_000.0, "1.00e+04"), (3.7e21, "3.70e+21")])
def test_losses_from_ten_thousand_on_are_powers_of_ten(value, text):
    assert LOSS.format_value(value) == text


def test_a_power_of_ten_has_its_interval_as_one_too():
    assert displayed_mean([1e6, 3e6, 2e6], LOSS) == "2.00e+06 ± 2.48e+06"


def test_one_seed_says_so_and_a_figure_that_no_seed_changes_does_not():
    assert displayed_mean([0.5], ACCURACY) == "50.00 (1 seed)"
    assert displayed_mean([0.5], SECONDS) == "0.50"
    assert (
        TableCell.from_estimate(estimate_mean([0.5]), ACCURACY, "p = 0.5").display_text(ACCURACY)
        == "50.00 (p = 0.5, 1 seed)"
    )


def test_where_there_is_no_figure_the_reason_stands():
    assert TableCell(text="1 of 3 failed").display_text(ACCURACY) == "1 of 3 failed"
    assert TableCell(text="none", note="why").display_text(ACCURACY) == "none (why)"
    assert TableCell().display_text(ACCURACY) == ""


def test_libraries_that_differ_in_the_last_digits_give_the_same_cell():
    values = [0.1, 0.2, 0.4]
    moved = [value * (1 + 1e-15) for value in values]
    assert TableCell.from_estimate(estimate_mean(values), ACCURACY) == TableCell.from_estimate(
        estimate_mean(moved), ACCURACY
    )


def test_flags_are_numbered_once_and_notes_follow():
    rows = [
        Row(keys=("a",), defense="a", cells=(TableCell(),), flags=("stale", "kept")),
        Row(keys=("b",), defense="b", cells=(TableCell(),), flags=("kept",)),
    ]
    table = Table(name="t", title="T", section="Cost", columns=(LOSS,), rows=tuple(rows), notes=("A note.",))
    assert table.footnotes == ["⚑1 stale", "⚑2 kept", "A note."]


@pytest.mark.parametrize("name", ["", "../evil", "a/b", ".hidden", "a" * 121])
def test_a_table_is_named_like_a_file(name):
    with pytest.raises(ValueError, match="name"):
        Table(name=name, title="T", section="Cost", columns=(), rows=())


def test_sections_stand_in_one_order_and_those_of_other_measures_last():
    tables = [
        Table(name=f"t{place}", title="T", section=section, columns=(), rows=())
        for place, section in enumerate(("Other measures", "Cost", "Robustness", "All together", "Cost"))
    ]
    board = Board(suite="own", title="Own", description="", tables=tuple(tables), flags=())
    assert board.sections == ["All together", "Robustness", "Cost", "Other measures"]
