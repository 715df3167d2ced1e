"""What a run leaves for its reader: tables on the terminal, and files beside the records."""

from collections.abc import Sequence

from rich.console import Console

from fflbench.records.record import Record
from fflbench.report import costs, leaks, render, tables


def show(records: Sequence[Record], console: Console) -> None:
    """Print the tables."""
    if _measured(records):
        render.sheets_to_terminal(_sheets(records), console)
    else:
        render.to_terminal(tables.robustness(records), console)


def files(title: str, records: Sequence[Record]) -> dict[str, bytes]:
    """The files of a report, by name."""
    if not _measured(records):
        found = tables.robustness(records)
        return {"tables.md": render.to_markdown(title, found).encode(), "tables.csv": render.to_csv(found).encode()}
    made = {
        "tables.md": render.sheets_to_markdown(title, _sheets(records)).encode(),
        "tables.csv": costs.to_csv(records).encode(),
    }
    if costs.exponents(records):
        from fflbench.report import plots

        made |= plots.scaling(records)
    return made


def _sheets(records: Sequence[Record]) -> list[costs.Sheet]:
    leaked = [record for record in records if record.configuration["measure"]["name"] == "reconstruction"]
    return leaks.sheets(leaked) + costs.sheets(records)


def _measured(records: Sequence[Record]) -> bool:
    return any("measure" in record.configuration for record in records)
