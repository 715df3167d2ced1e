"""One table in every format: the same figures, and names letter by letter."""

import csv
import html
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fflbench.metrics import Metric, share
from fflbench.report.table_formats import to_csv, to_json, to_latex, to_markdown
from fflbench.report.table_model import Board, Column, Row, Table, TableCell

NAMES = [
    *(
        "<b>|*",
        "100% $un_safe & {bad} \\input",
        "[x](http://y)",
        "=HYPERLINK(1)",
        "&lt;b&gt;",
        "# a",
        "a ~ b ^ c",
        "``",
    ),
    *("[bold]no[/bold]", "$x$ and $y$", "@SUM(1+1)", "größer > 1"),
]
COLUMNS = (
    Column.from_metric(share("accuracy", "accuracy", "Share that is right.", higher_is_better=True)),
    Column.from_metric(Metric(name="loss", title="loss", meaning="Loss.", digits=3, higher_is_better=False)),
)


def table_with_rows(*names, **fields):
    """A table with a row of each name: one is best, one tied, one has no figure."""
    cells = [
        (TableCell(mean=0.85, low=0.8, high=0.9, seeds=3, mark="best"), TableCell(mean=0.4, seeds=1, note="1 seed")),
        (TableCell(mean=0.98, low=0.9, high=1.0, seeds=3, mark="tied"), TableCell(text="1 of 3 failed")),
    ]
    rows = [
        Row(keys=(name,), defense=name, cells=cells[place % 2], flags=("stale",) * (place == 1))
        for place, name in enumerate(names)
    ]
    given = {"name": "t", "title": "T", "section": "Cost", "columns": COLUMNS, "rows": tuple(rows), "notes": ("Note.",)}
    return Table(**(given | fields))


def markdown_table_rows(text):
    """Rows of the first table of a Markdown text as a reader sees them, by another renderer."""
    page = MarkdownIt("commonmark").enable("table").render(text)
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    parts = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(part) for part in row] for row in parts]


def test_markdown_has_figures_intervals_marks_and_flags():
    head, first, second = markdown_table_rows(to_markdown(table_with_rows("a", "b")))
    assert head == ["defense", "accuracy %", "loss"]
    assert first == ["a", "<strong>85.00 ± 5.00</strong>", "0.400 (1 seed)"]
    assert second == ["b ⚑1", "= 98.00 (90.00 to 100.00)", "1 of 3 failed"]
    assert "⚑1 stale" in to_markdown(table_with_rows("a", "b"))


@pytest.mark.parametrize("name", NAMES)
def test_markdown_shows_names_letter_by_letter(name):
    _, row = markdown_table_rows(to_markdown(table_with_rows(name)))
    assert row[0] == name
    page = MarkdownIt("commonmark").render(to_markdown(table_with_rows("a", title=name, notes=(name,))))
    assert f"<h3>{html.escape(name)}</h3>" in page
    assert f"<p>{html.escape(name)}</p>" in page


def test_github_takes_no_dollars_for_a_formula():
    assert "\\$x\\$ and \\$y\\$" in to_markdown(table_with_rows("$x$ and $y$"))


def test_csv_has_one_line_per_figure_of_every_table():
    rows = list(csv.DictReader(io.StringIO(to_csv([table_with_rows("a", "b"), table_with_rows("c", name="other")]))))
    assert len(rows) == 2 * 2 + 1 * 2
    first = rows[0]
    assert (first["table"], first["row"], first["column"], first["mark"]) == ("t", "a", "accuracy", "best")
    assert (float(first["mean"]), float(first["low_95"]), float(first["high_95"]), int(first["seeds"])) == (
        *(0.85, 0.8, 0.9, 3),
    )
    assert (rows[3]["mean"], rows[3]["text"], rows[3]["flags"]) == ("", "1 of 3 failed", "stale")
    assert rows[4]["table"] == "other"


@given(st.text(min_size=1, max_size=8), st.sampled_from(["", " ", "\t", "\n"]), st.sampled_from("=+-@"))
def test_no_field_of_a_csv_file_is_a_formula(rest, space, sign):
    name = f"{space}{sign}{rest}"
    content = to_csv([table_with_rows(name)])
    fields = [field for row in csv.reader(io.StringIO(content, newline="")) for field in row]
    assert not any(field.strip().startswith(("=", "+", "-", "@")) for field in fields if not _is_number(field))


def _is_number(text):
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) is not None


def test_latex_is_for_booktabs():
    text = to_latex(table_with_rows("a", "b"))
    assert "needs \\usepackage{booktabs}" in text
    body = text.split("\\midrule")[1].split("\\bottomrule")[0].strip().splitlines()
    assert body[0] == "{a} & \\textbf{85.00 $\\pm$ 5.00} & 0.400 (1 seed) \\\\"
    assert body[1] == "{b}$^{1}$ & = 98.00 (90.00 to 100.00) & 1 of 3 failed \\\\"
    assert "\\begin{tabular}{lrr}" in text


@pytest.mark.parametrize("name", NAMES)
def test_latex_holds_no_command_and_no_special_letter_of_a_name(name):
    text = to_latex(table_with_rows(name, title=name, notes=(name,), keys=(name,)))
    assert text.splitlines()[0].startswith("% ")
    (line,) = (line for line in text.splitlines() if "85.00" in line)
    # Without everything that is ours, no letter with a meaning of its own is left.
    ours = r"\\text\w+\{\}|\\[&%$#_{}]|\$[<>]\$"
    left = re.sub(ours, "", line.split(" & \\textbf")[0])
    assert left.startswith("{")
    assert left.endswith("}")
    assert not re.search(r"[\\&%$#_{}~^]", left[1:-1])


def test_latex_takes_no_bracket_for_an_option_of_the_line_before():
    assert "\\\\\n{[x]}$^{1}$ & " in to_latex(table_with_rows("a", "[x]"))


def test_json_is_valid_by_its_own_schema_and_reads_back_the_same():
    board = Board(suite="own", title="Own", description="", tables=(table_with_rows(*NAMES),), flags=("mind",))
    content = json.loads(to_json(board))
    assert Board.model_validate(content) == board
    assert content["tables"][0]["rows"][0]["cells"][0]["mean"] == 0.85
    with pytest.raises(ValueError, match="extra"):
        Board.model_validate(content | {"extra": 1})


def test_rows_of_several_keys_are_named_by_all_of_them():
    row = Row(keys=("own", "ffl"), defense="ffl", cells=(TableCell(), TableCell()), flags=("stale",))
    table = table_with_rows("a").model_copy(update={"keys": ("observation", "defense"), "rows": (row,)})
    assert markdown_table_rows(to_markdown(table))[1][:2] == ["own", "ffl ⚑1"]
    assert "{own} & {ffl}$^{1}$ & " in to_latex(table)
    assert next(csv.DictReader(io.StringIO(to_csv([table]))))["row"] == "own, ffl"


def test_the_same_tables_give_the_same_bytes():
    for make in (to_markdown, to_latex, lambda table: to_csv([table])):
        assert make(table_with_rows(*NAMES)) == make(table_with_rows(*NAMES))
