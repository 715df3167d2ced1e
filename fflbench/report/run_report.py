"""Report of a run: tables and figures, printed and written beside its records."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from fflbench.records.npz_file import Arrays
from fflbench.records.record import Record
from fflbench.report.figures import draw_figures
from fflbench.report.table_formats import escape_markdown, to_csv, to_markdown
from fflbench.report.table_model import Board
from fflbench.report.terminal_tables import print_tables

PAGE = "tables.md"
"""File of all tables, beside the records."""


def print_report(board: Board, console: Console) -> None:
    """Print the tables and warnings of a board."""
    print_tables(board.tables, console)
    for flag in board.flags:
        console.print(Text(f"⚑ {flag}", style="dim"))


def report_files(board: Board, records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> dict[str, bytes]:
    """Return the files of a run's report, by name."""
    page = [f"# {escape_markdown(board.title)}", "", *(f"- {escape_markdown(flag)}" for flag in board.flags), ""]
    page += [to_markdown(table) for table in board.tables]
    made = {PAGE: "\n".join(page).encode(), "tables.csv": to_csv(board.tables).encode()}
    for picture in draw_figures(records, board, arrays):
        made |= {f"{picture.name}.{ending}": content for ending, content in picture.page_file_and_numbers.items()}
    return made
