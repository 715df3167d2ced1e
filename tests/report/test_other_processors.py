"""Times of another processor than the others of their table: marked in the cell, and compared with nothing."""

import csv
import io
import json

from fflbench.records.collection import read_collection
from fflbench.report import leaderboard, page
from fflbench.report.all_tables import build_board
from fflbench.report.figures import draw_figures
from fflbench.report.other_processors import mark_other_processors
from fflbench.report.reproduction_commands import reproduction_commands
from fflbench.report.table_formats import to_csv, to_json, to_latex, to_markdown
from fflbench.report.table_model import Column, Row, Table, TableCell
from tests.report.record_folders import write_run_folder
from tests.report.synthetic_records import WHOLE, find_cell, find_table, no_arrays, runtime_record


def on(processor, record):
    return record.model_copy(update={"manifest": record.manifest | {"processor": processor}})


HERE = [on("Slow 1", runtime_record(name, task="adult-mlp")) for name in ("fedavg", "median")]
THEIRS = on("Fast & <b>2</b>", runtime_record("krum", seconds=0.0077, task="adult-mlp"))


def other_processors(table):
    return {cell.other_processor for row in table.rows for cell in row.cells} - {""}


def test_every_cell_of_time_names_the_other_processor_it_was_measured_on():
    paper = on("Fast", runtime_record("multi-krum", task="adult-mlp"))
    for table in build_board("own", [*HERE, paper]).tables:
        for row in table.rows:
            marked = {cell.other_processor for cell in row.cells if cell.records}
            assert marked == ({"Fast"} if row.defense == "multi-krum" else {""})


def test_entries_from_outside_never_decide_which_processor_is_the_usual_one():
    reported = [on("Fast", runtime_record(name, task="adult-mlp")) for name in ("krum", "multi-krum", "foolsgold")]
    board = build_board("own", [*HERE, *reported], {record.id: "reported" for record in reported})
    for table in board.tables:
        for row in table.rows:
            marked = {cell.other_processor for cell in row.cells if cell.records}
            assert marked == ({""} if row.defense in ("fedavg", "median") else {"Fast"})
    assert any("Measured on Slow 1" in note for table in board.tables for note in table.notes)


def test_growth_of_times_measured_elsewhere_is_marked():
    grown = {name: runtime_record(name, seconds=lambda n, d: n * d * 1e-9) for name in ("fedavg", "median", "krum")}
    records = [on("Fast" if name == "krum" else "Slow", record) for name, record in grown.items()]
    table = find_table(build_board("own", records), "runtime-growth-digits-mlp")
    assert find_cell(table, "krum", "server_exponent_d").other_processor == "Fast"
    assert find_cell(table, "median", "server_exponent_d").other_processor == ""


def test_tables_of_one_processor_have_no_trace_of_marks():
    board = build_board("own", HERE)
    assert not any(other_processors(table) for table in board.tables)
    assert "other_processor" not in to_json(board)
    assert "†" not in "".join(map(to_markdown, board.tables))


def test_other_measures_are_compared_across_processors():
    records = [on(f"number {place}", record) for place, record in enumerate(WHOLE)]
    board = build_board("own", records)
    assert not any(other_processors(table) for table in board.tables)
    assert any("another processor than the others" in flag for flag in board.flags)


def test_the_mark_is_explained_in_every_format():
    board = build_board("own", [*HERE, THEIRS])
    assert not any("processor" in flag for flag in board.flags)
    (table,) = [each for each in board.tables if other_processors(each)]
    note = "measured on another processor: Fast & <b>2</b>"
    markdown = to_markdown(table)
    assert "| krum | 0.00770 † |" in markdown
    assert "† measured on another processor: Fast \\& \\<b\\>2\\</b\\>" in markdown
    assert "Measured on Slow 1;" in markdown
    lines = list(csv.DictReader(io.StringIO(to_csv([table]))))
    assert {line["note"] for line in lines if line["defense"] == "krum"} == {note}
    assert not any(line["note"] for line in lines if line["defense"] != "krum")
    assert ">0.00770 †</td>" in table._repr_html_()
    assert "0.00770 $^\\dagger$" in to_latex(table)
    (found,) = [each for each in json.loads(to_json(board))["tables"] if each["name"] == table.name]
    assert {cell["other_processor"] for row in found["rows"] for cell in row["cells"] if "other_processor" in cell} == {
        "Fast & <b>2</b>"
    }
    commands = reproduction_commands("own", HERE, {})
    html = page.render_leaderboard(board, [*HERE, THEIRS], draw_figures([*HERE, THEIRS], board, no_arrays), commands)
    shown = "measured on another processor: Fast &amp; &lt;b&gt;2&lt;/b&gt;"
    assert f'title="{shown}"> †</span>' in html
    assert f"<li>† {shown}</li>" in html
    # The page's script compares and sorts what has a value.
    assert 'data-v="0.0077"' not in html
    assert 'data-v="0.01"' in html


def test_each_of_several_other_processors_has_a_mark_of_its_own():
    two = [on("B", runtime_record("krum")), on("C", runtime_record("foolsgold"))]
    board = build_board("own", [on("A", runtime_record(name)) for name in ("fedavg", "median")] + two)
    assert {"B": "†", "C": "†2"} in [table.other_processors for table in board.tables]


def test_of_two_processors_with_as_many_records_that_of_the_first_is_the_usual_one(tmp_path):
    records = [on("theirs", runtime_record("a-rule")), on("ours", runtime_record("fedavg"))]
    write_run_folder(tmp_path / "results" / "own", records)
    leaderboard.generate(tmp_path / "results" / "own", tmp_path / "boards" / "own")
    found = read_collection(tmp_path / "boards" / "own")
    board = build_board("own", found.records)
    assert {processor for table in board.tables for processor in other_processors(table)} == {"theirs"}


def test_no_test_marks_a_column_with_times_of_two_processors():
    records = [*HERE, THEIRS]
    rows = tuple(
        Row(
            keys=(record.defense,),
            defense=record.defense,
            cells=(TableCell(mean=1.0, mark="best", records=(record.id,)), TableCell(mean=1.0, mark="tied")),
        )
        for record in records
    )
    columns = tuple(Column(name=name, title=name, meaning="") for name in ("seconds", "other"))
    table = mark_other_processors(Table(name="t", title="t", section="Cost", columns=columns, rows=rows), records, ())
    assert {row.cells[0].mark for row in table.rows} == {""}
    assert {row.cells[1].mark for row in table.rows} == {"tied"}
