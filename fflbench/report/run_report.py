"""Tables and figures of a run: printed, and written beside its records."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from fflbench.records.arrays import Arrays
from fflbench.records.record import Record
from fflbench.report.figures import figures
from fflbench.report.formats import escape, to_csv, to_markdown, to_terminal
from fflbench.report.table import Board


def show(found: Board, console: Console) -> None:
    """Print all tables, and what must be said of them."""
    to_terminal(found.tables, console)
    for flag in found.flags:
        console.print(Text(f"⚑ {flag}", style="dim"))


def files(found: Board, records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> dict[str, bytes]:
    """Return the files of a run's report, by name."""
    page = [f"# {escape(found.title)}", "", *(f"- {escape(flag)}" for flag in found.flags), ""]
    page += [to_markdown(table) for table in found.tables]
    made = {"tables.md": "\n".join(page).encode(), "tables.csv": to_csv(found.tables).encode()}
    for picture in figures(records, found, arrays):
        made |= {f"{picture.name}.{ending}": content for ending, content in picture.smallest.items()}
    return made
