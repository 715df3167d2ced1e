"""Tables and figures beside the records of a run."""

import csv
import io

from rich.console import Console

from fflbench.report.all_tables import build_board
from fflbench.report.run_report import print_report, report_files
from tests.report.synthetic_records import (
    WHOLE,
    as_failed,
    change_records_with_labels,
    no_arrays,
    robustness_record,
    runtime_record,
)


def printed_report(records):
    console = Console(file=io.StringIO(), width=200)
    print_report(build_board("own", records), console)
    return console.file.getvalue()


def test_all_tables_are_written_with_every_figure_of_the_run():
    made = report_files(build_board("own", WHOLE), WHOLE, no_arrays)
    page = made["tables.md"].decode()
    assert page.startswith("# own\n")
    tables = {line["table"] for line in csv.DictReader(io.StringIO(made["tables.csv"].decode()))}
    assert {"digits-mlp-robustness-accuracy", "digits-mlp-summary", "digits-mlp-robustness-gaussian-noise"} <= tables
    assert page.count("\n### ") == len(tables)


def test_every_figure_is_written_with_its_numbers():
    made = report_files(build_board("own", WHOLE), WHOLE, no_arrays)
    drawn = {name.removesuffix(".svg") for name in made if name.endswith(".svg")}
    assert len(drawn) >= 3
    assert {f"{name}.{ending}" for name in drawn for ending in ("svg", "csv")} <= set(made)


def test_the_terminal_says_what_concerns_more_than_one_row():
    records = change_records_with_labels(WHOLE, as_failed, attack="gaussian-noise", defense="median", seed=0)
    text = printed_report(records)
    assert "digits-mlp: worst cases over all attacks" in text
    assert "⚑ 1 cell failed: digits-mlp · robustness · gaussian-noise · median · seed 0: boom" in text
    assert "1 cell failed" in report_files(build_board("own", records), records, no_arrays)["tables.md"].decode()


def titles(board):
    return [table.title for table in board.tables]


def test_the_summary_is_the_table_that_joins_all_measures():
    board = build_board("own", [*WHOLE, runtime_record()])
    assert titles(board.summary) == ["digits-mlp: all measures"]
    assert len(board.tables) > 5
    assert board.summary.flags == board.flags


def test_the_summary_of_one_measure_is_its_summary_table_or_else_its_first():
    robustness = build_board("own", WHOLE)
    assert titles(robustness.summary) == ["digits-mlp: worst cases over all attacks"]
    runtime = build_board("own", [runtime_record(), runtime_record(seed=1)])
    assert titles(runtime.summary) == titles(runtime)[:1]


def test_the_summary_of_measures_on_different_tasks_has_a_table_of_each():
    board = build_board("own", [robustness_record(), runtime_record(task="digits-cnn")])
    assert [table.section for table in board.summary.tables] == ["Robustness", "Cost"]


def test_names_are_printed_letter_by_letter():
    assert "[bold]x[/bold]" in printed_report([robustness_record(defense="[bold]x[/bold]")])
