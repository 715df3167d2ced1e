"""Sentences above tables: who leads, who falls behind, and the ranges of privacy and cost."""

from fflbench.report.answers import answer_sentences
from fflbench.report.table_model import Column, Row, Table, TableCell

ACCURACY = Column(name="worst", title="worst untargeted %", meaning="", factor=100, higher_is_better=True)
SECONDS = Column(name="seconds", title="server, s", meaning="", section="Cost", higher_is_better=False)
RANKS = Column(name="rank", title="rank", meaning="", digits=0, higher_is_better=False)


def table(marks, means=(0.96, 0.95, 0.25, None), notes=("", "", "mimic", "")):
    cells = [TableCell(mean=mean, mark=mark, note=note) for mean, mark, note in zip(means, marks, notes, strict=True)]
    seconds = [TableCell(mean=mean) for mean in (0.5, 0.1, 0.1, 0.2)]
    rows = [
        Row(keys=(name,), defense=name, cells=(TableCell(mean=1, mark="tied"), cell, cost))
        for name, cell, cost in zip(("median", "ffl", "krum", "mda"), cells, seconds, strict=True)
    ]
    return Table(name="t", title="t", section="All together", columns=(RANKS, ACCURACY, SECONDS), rows=tuple(rows))


def test_ties_those_behind_and_ranges_are_named():
    assert answer_sentences(table(("tied", "tied", "", ""))) == [
        "Worst untargeted: 2 of 3 cannot be told from the best (96.00% to 95.00%), median and ffl.",
        "The others, the lowest first: krum 25.00% (mimic).",
        "Server, s: from 0.10 (ffl and krum) to 0.50 (median).",
    ]


def test_one_that_is_better_than_all_is_named_alone():
    assert answer_sentences(table(("best", "", "", "")))[:2] == [
        "Worst untargeted: median is better than every other, 96.00%.",
        "The others, the lowest first: krum 25.00% (mimic); ffl 95.00%.",
    ]


def test_where_no_test_tells_any_apart_nobody_is_behind():
    assert answer_sentences(table(("tied", "tied", "tied", "")))[0] == (
        "Worst untargeted: no test tells any of the 3 apart (96.00% to 25.00%)."
    )


def test_a_table_without_tests_has_no_sentences():
    assert answer_sentences(table(("", "", "", ""))) == []


def test_a_table_of_ranges_has_one_sentence_per_column_with_values():
    ranges = table(("", "", "", "")).model_copy(update={"answers": "ranges"})
    assert answer_sentences(ranges) == [
        "Worst untargeted: from 25.00% (krum) to 96.00% (median).",
        "Server, s: from 0.10 (ffl and krum) to 0.50 (median).",
    ]


def test_a_sweep_has_no_sentences():
    assert answer_sentences(table(("best", "", "", "")).model_copy(update={"is_sweep": True})) == []


def test_long_lists_are_cut():
    rows = tuple(Row(keys=(f"d{place}",), defense="d", cells=(TableCell(mean=0.9, mark="tied"),)) for place in range(9))
    last = Row(keys=("last",), defense="d", cells=(TableCell(mean=0.1),))
    found = answer_sentences(Table(name="t", title="t", section="s", columns=(ACCURACY,), rows=(*rows, last)))
    assert found[0].endswith("(90.00%), d0, d1, d2, d3, d4 and 4 more.")
