"""Checks of executors."""

import tempfile
from contextlib import closing
from pathlib import Path

from fflbench.conformance.check_registry import comparable_bits, register_check, require
from fflbench.execution.jobs_and_events import Executor, Finished, Job, RunSettings
from fflbench.execution.run_cell import run_cell
from fflbench.records.record import Record
from fflbench.records.store import Store
from fflbench.registry import Entry, Kind
from fflbench.suites import suite
from fflbench.suites.cell import Cell
from fflbench.suites.plan import plan

NAME = "conformance"
CONTENT = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": ["median"], "seeds": [0, 1]}


@register_check(Kind.EXECUTOR)
def check_one_record_per_cell(entry: Entry) -> None:
    """Check that every cell has one record, with the results of running it in this process."""
    cells = plan(suite.parse(CONTENT, NAME, NAME, ["rounds=1", "participants=4", "per_round=2"]))
    given = _run_executor(entry, cells)
    for cell in cells:
        of_cell = [record for each, record in given if each.id == cell.id]
        require(len(of_cell) == 1, entry, f"gave {len(of_cell)} records for a cell, and must give one")
        expected = run_cell(cell, NAME)
        require(of_cell[0].status == "done", entry, f"failed to run a cell: {of_cell[0].error}")
        results = [comparable_bits([record.metrics, record.history]) for record in (of_cell[0], expected)]
        require(
            results[0] == results[1],
            entry,
            "gave other metrics or another history than running the cell in this process",
        )


def _run_executor(entry: Entry, cells: list[Cell]) -> list[tuple[Cell, Record]]:
    """Return the records that an executor gives for cells."""
    execute: Executor = entry.target
    plugins = (str(entry.file),) if entry.source else ()
    with tempfile.TemporaryDirectory() as folder:
        settings = RunSettings(NAME, Store(Path(folder)), plugins=plugins, workers=1)
        with closing(execute([Job(cell) for cell in cells], settings)) as events:
            return [(event.cell, event.record) for event in events if isinstance(event, Finished)]
