"""Tables on terminals of any width: every figure is there, names letter by letter, and words in one piece."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fflbench.report.answers import answer_sentences
from fflbench.report.table_model import Board, Column, Row, Table, TableCell
from fflbench.report.terminal_tables import print_tables
from tests.report.test_table_formats import NAMES, table_with_rows

BOARDS = Path(__file__).parents[2] / "leaderboards"


def print_to_text(tables, width=200):
    console = Console(file=io.StringIO(), width=width)
    print_tables(tables, console)
    return console.file.getvalue()


def words_of_table(table):
    texts = [table.title, *answer_sentences(table), *table.keys, *table.footnotes]
    texts += [column.title for column in table.columns]
    for row in table.rows:
        cells = zip(table.columns, row.cells, strict=True)
        texts += table.keys_with_flag_numbers(row)
        texts += [cell.apply_mark(table.cell_text(column, cell), "{}") for column, cell in cells]
    return {word for text in texts for word in text.split()}


def words_of_text(text):
    return {word for word in text.split() if word.strip("─")}


def table_of_texts(columns, rows, keys=("defense",)):
    """A table with columns of these headings, and cells with these texts."""
    made = tuple(Column(name=f"c{place}", title=title, meaning="") for place, title in enumerate(columns))
    rows = tuple(
        Row(keys=names, defense=names[-1], cells=tuple(TableCell(text=text) for text in cells)) for names, cells in rows
    )
    return Table(name="t", title="T", section="Cost", keys=keys, columns=made, rows=rows)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_letter_by_letter(name):
    assert name in print_to_text([table_with_rows(name, title=name, notes=(name,))])


def test_figures_marks_flags_and_notes_are_shown():
    text = print_to_text([table_with_rows("a", "b")])
    for part in ("85.00 ± 5.00", "= 98.00 (90.00 to 100.00)", "b ⚑1", "⚑1 stale", "Note.", "0.400 (1 seed)"):
        assert part in text


def test_a_terminal_too_narrow_for_its_words_loses_no_letter():
    drawn = print_to_text([table_with_rows("a-defense-with-a-long-name", notes=())], width=36).splitlines()
    drawn = drawn[next(place for place, line in enumerate(drawn) if line.strip().startswith("defense")) :]
    assert "".join(line[:12].strip() for line in drawn if "-" in line[:12]).startswith("a-defense")
    assert "…" not in "".join(drawn)


def test_columns_that_do_not_fit_continue_below_with_the_names_of_rows():
    table = table_of_texts([f"column{place}" for place in range(9)], [(("median",), [f"{n}.5" for n in range(9)])])
    text = print_to_text([table], width=80)
    assert [line.split() for line in text.splitlines() if line.strip().startswith(("defense", "median"))] == [
        ["defense", *(f"column{place}" for place in range(6))],
        ["median", *(f"{place}.5" for place in range(6))],
        ["defense", *(f"column{place}" for place in range(6, 9))],
        ["median", *(f"{place}.5" for place in range(6, 9))],
    ]


def test_a_heading_is_wrapped_before_columns_move_to_another_block():
    table = table_of_texts(["a heading of several words"] * 4, [(("median",), ["0.5"] * 4)])
    assert print_to_text([table], width=130).count("a heading of several words") == 4
    narrow = print_to_text([table], width=80)
    assert (narrow.count("defense"), narrow.count("several words")) == (1, 4)


def test_a_table_without_rows_or_columns_is_shown():
    assert "defense" in print_to_text([table_of_texts([], [])], width=80)
    assert "loss" in print_to_text([table_of_texts(["loss"], [])], width=80)


@pytest.mark.parametrize("board", sorted(path.parent.parent.name for path in BOARDS.glob("*/tables/leaderboard.json")))
def test_no_word_of_a_leaderboard_is_broken_at_80_columns(board):
    tables = Board.model_validate(json.loads((BOARDS / board / "tables/leaderboard.json").read_text())).tables
    for table in tables:
        text = print_to_text([table], width=80)
        assert max(map(len, text.splitlines())) <= 80
        assert words_of_text(text) == words_of_table(table)


words = st.text("abcdefgh-%", min_size=1, max_size=18)
texts = st.lists(words, max_size=6).map(" ".join)


@given(st.data(), st.integers(80, 200), st.integers(0, 12), st.integers(0, 3), st.integers(1, 2))
def test_no_word_is_broken_or_lost_in_any_table(data, width, columns, rows, keys):
    draw = data.draw
    table = table_of_texts(
        [draw(texts) for _ in range(columns)],
        [(tuple(draw(texts) for _ in range(keys)), [draw(texts) for _ in range(columns)]) for _ in range(rows)],
        keys=("observation", "defense")[:keys],
    )
    shown = print_to_text([table], width)
    assert max(map(len, shown.splitlines())) <= width
    assert words_of_text(shown) == words_of_table(table)
