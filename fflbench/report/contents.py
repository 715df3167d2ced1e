"""What a run leaves for its reader: tables on the terminal, and files beside the records."""

from collections.abc import Callable, Sequence

from rich.console import Console

from fflbench.records.arrays import Arrays
from fflbench.records.record import Record
from fflbench.report import costs, inferences, leaks, render, tables


def show(records: Sequence[Record], console: Console) -> None:
    """Print the tables."""
    attacked, measured = _parted(records)
    render.to_terminal(tables.robustness(attacked), console)
    render.sheets_to_terminal(_sheets(measured), console)


def files(title: str, records: Sequence[Record], arrays: Callable[[Record], Arrays] = lambda _: {}) -> dict[str, bytes]:
    """The files of a report, by name; `arrays` finds those that stand beside a record."""
    attacked, measured = _parted(records)
    page, made = [f"# {render.escape(title)}", ""], {}
    if attacked:
        found = tables.robustness(attacked)
        page.append(render.to_markdown(found))
        made["tables.csv"] = render.to_csv(found)
    if measured:
        page.append(render.sheets_to_markdown(_sheets(measured)))
        made["measures.csv"] = costs.to_csv(measured)
    made["tables.md"] = "\n".join(page)
    return {name: text.encode() for name, text in made.items()} | _pictures(measured, arrays)


def _pictures(records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> dict[str, bytes]:
    from fflbench.report import figures, grids, plots

    with plots.plain_text():
        drawn = plots.scaling(records) if costs.exponents(records) else {}
        return drawn | plots.decay(records) | figures.curves(records) | grids.reconstructions(records, arrays)


def _sheets(records: Sequence[Record]) -> list[costs.Sheet]:
    return leaks.sheets(records) + inferences.sheets(records) + costs.sheets(records)


def _parted(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Cells that played a federation, and those that measured something else."""
    measured = [record for record in records if "measure" in record.configuration]
    return [record for record in records if "measure" not in record.configuration], measured
