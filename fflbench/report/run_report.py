"""Report of a run: tables and figures, printed and written beside its records."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from fflbench.records.arrays import Arrays
from fflbench.records.record import Record
from fflbench.report.figures import figures
from fflbench.report.formats import escape, to_csv, to_markdown, to_terminal
from fflbench.report.table import Board


def show(board: Board, console: Console) -> None:
    """Print all tables and warnings."""
    to_terminal(board.tables, console)
    for flag in board.flags:
        console.print(Text(f"⚑ {flag}", style="dim"))


def files(board: Board, records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> dict[str, bytes]:
    """Return the files of a run's report, by name."""
    page = [f"# {escape(board.title)}", "", *(f"- {escape(flag)}" for flag in board.flags), ""]
    page += [to_markdown(table) for table in board.tables]
    made = {"tables.md": "\n".join(page).encode(), "tables.csv": to_csv(board.tables).encode()}
    for picture in figures(records, board, arrays):
        made |= {f"{picture.name}.{ending}": content for ending, content in picture.smallest.items()}
    return made
