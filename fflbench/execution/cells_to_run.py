"""Plan of a run: the cells of a suite, which of them are finished, and which have to run again."""

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fflbench import registry
from fflbench.errors import FflbenchError, RecordError, SuiteError
from fflbench.execution.run_options import Options
from fflbench.records import jsonl_file
from fflbench.records.manifest import results_versions
from fflbench.records.record import Record
from fflbench.records.store import Store
from fflbench.records.store import read_record as read_record
from fflbench.records.validation import LONGEST_TITLE
from fflbench.registry import Kind
from fflbench.safe_texts import slug
from fflbench.suites.cell import Cell
from fflbench.suites.plan import plan
from fflbench.suites.suite import read


@dataclass(frozen=True)
class RunPlan:
    """Cells of a run, and the records that earlier runs have left of them."""

    suite: str
    title: str
    store: Store
    cells: list[Cell]
    done: dict[str, Record] = field(default_factory=dict)
    """Records that are still valid, by cell."""
    relabelled: dict[str, Record] = field(default_factory=dict)
    """Valid records that get labels which their files do not have yet."""
    outdated: dict[str, list[str]] = field(default_factory=dict)
    """Changed parts of the code of each finished cell that runs again."""
    force: bool = False
    """Whether all cells run again, from their first round."""
    one_record: bool = False
    """Whether this is one recorded cell instead of a suite; its suite's tables are then left unchanged."""

    @property
    def to_run(self) -> list[Cell]:
        """Cells that still have to run."""
        return [cell for cell in self.cells if cell.id not in self.done]

    @property
    def changes(self) -> str:
        """Sentence about finished cells that run again because code has changed, or ""."""
        if not self.outdated:
            return ""
        parts = sorted({part for changed in self.outdated.values() for part in changed})
        count = "1 finished cell runs" if len(self.outdated) == 1 else f"{len(self.outdated)} finished cells run"
        return f"{count} again because code that they depend on has changed: {', '.join(parts)}"


def plan_run(
    suite: str,
    options: Options,
    *,
    out: str | Path = "results",
    seeds: Sequence[int] | None = None,
    settings: Iterable[str] = (),
    force: bool = False,
) -> RunPlan:
    """Read a suite (or the record of one cell), check every cell and the options, and look up finished cells."""
    check_options(options)
    on_board = jsonl_file.is_record_path(Path(suite))
    one_record = on_board or suite.endswith(".json")
    if one_record:
        name, title, cells = _cell_of_record_file(Path(suite), settings, seeds)
        # The records of a leaderboard are evidence and are never overwritten.
        store = Store(Path(out) / slug(name) if on_board else Path(suite).parent)
    else:
        changes = list(settings) + ([f"seeds = {list(seeds)}"] if seeds is not None else [])
        content = read(suite, changes)
        name, title, cells = content.name, content.title, plan(content)
        store = Store(Path(out) / name)
    return with_finished_cells(RunPlan(name, title, store, cells, force=force, one_record=one_record))


def check_options(options: Options) -> None:
    """Load plugins, and refuse an executor or device that there is not."""
    for failure in registry.load_named(options.plugins):
        raise SuiteError(str(failure))
    registry.get(Kind.EXECUTOR, options.executor)
    if options.runs_here and options.device != "cpu":
        check_device(options.device)


def with_finished_cells(planned: RunPlan) -> RunPlan:
    """Return a plan with the records of finished cells that are still valid, after a check of every cell."""
    name, title, store, cells = planned.suite, planned.title, planned.store, planned.cells
    for cell in cells:
        _check_cell(cell, store)
    if planned.force:
        return planned
    finished = {cell.id: record for cell in cells if (record := _read_finished_record(cell, store))}
    outdated = {
        cell.id: changed
        for cell in cells
        if cell.id in finished and (changed := _changed_parts(finished[cell.id], cell))
    }
    done = {
        cell.id: _with_suite_labels(finished[cell.id], cell, name, title)
        for cell in cells
        if cell.id in finished and cell.id not in outdated
    }
    relabelled = {
        key: record for key, record in done.items() if not planned.one_record and _has_new_labels(record, finished[key])
    }
    return replace(planned, done=done, relabelled=relabelled, outdated=outdated)


def check_device(device: str) -> None:
    """Refuse a device that this machine lacks, before any cell runs."""
    import torch

    if not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SuiteError(f"--device {device}: there is no such device here; leave it out to train on the processor")


def _check_cell(cell: Cell, store: Store) -> None:
    """Refuse a cell whose plugins workers could not import, or whose files could not be written."""
    for entry in cell.entries.values():
        if entry.module == "__main__":
            raise SuiteError(f"{entry} is defined in the main script; move it to a file and name that in plugins")
    for file in (store.record_file(cell.id), store.arrays_file(cell.id), store.checkpoint_file(cell.id)):
        if os.path.isdir(file):  # noqa: PTH112 (a name too long for a folder is none)
            raise RecordError(f"{file} is a folder where a file of a record should be; move it away")


def _read_finished_record(cell: Cell, store: Store) -> Record | None:
    """Return the record of a cell if the cell succeeded and the record is intact."""
    record = store.read(cell.id)
    if record is None or record.status != "done":
        return None
    try:
        store.arrays(record)
    except RecordError as error:
        warnings.warn(f"{error}; its cell runs again", stacklevel=2)
        return None
    return record


def _with_suite_labels(record: Record, cell: Cell, suite: str, title: str) -> Record:
    """Return a finished cell's record with the current title and labels of the suite."""
    sweeps = {"sweep": dict(cell.sweep), "shared_by": dict(cell.shared_by)}
    named = {"suite": suite, "title": title[:LONGEST_TITLE]}
    return record.model_copy(update={"labels": dict(cell.labels), **named, **sweeps})


def _has_new_labels(now: Record, on_disk: Record) -> bool:
    """Return whether a suite shows a record under a title or label that its file does not have.

    A run of fewer defenses removes no label: the rows of the others stay in the folder.
    """
    rows = [{record.labels["defense"], *record.shared_by} for record in (now, on_disk)]
    others = [{**record.labels, "defense": ""} for record in (now, on_disk)]
    return not rows[0] <= rows[1] or others[0] != others[1] or now.title != on_disk.title


def _changed_parts(record: Record, cell: Cell) -> list[str]:
    """Return the parts of a cell whose results version or source has changed since its record was written."""
    recorded, now = record.manifest.get("results"), results_versions(cell.configuration)
    before = recorded if isinstance(recorded, dict) else {}
    parts = {key: str(entry) for key, entry in cell.entries.items()}
    return [parts.get(part, "fflbench itself") for part, version in now.items() if before.get(part) != version]


def _cell_of_record_file(
    file: Path, settings: Iterable[str], seeds: Sequence[int] | None
) -> tuple[str, str, list[Cell]]:
    if list(settings) or seeds is not None:
        raise SuiteError(f"{file} is the record of one cell, which --set and --seeds cannot change")
    record = read_record(file)
    cell = Cell.of(record)
    try:
        cell.created()
    except (FflbenchError, KeyError, TypeError) as error:
        raise RecordError(f"{file} cannot be run again: {error}") from error
    return record.suite, record.title, [cell]
