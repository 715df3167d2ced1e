"""`fflbench run`: plan, leave out what is done, execute, keep records, make tables."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from fflbench import registry
from fflbench.errors import FflbenchError, RecordError, SuiteError
from fflbench.execution.calibration import seconds_per_round
from fflbench.execution.display import display
from fflbench.execution.local import DIED, TOO_LARGE, Finished, Job, execute, warm_up
from fflbench.execution.memory import machine_memory, memory_of
from fflbench.records.evidence import SUMS
from fflbench.records.manifest import results_versions
from fflbench.records.record import Record, Records
from fflbench.records.store import Store
from fflbench.records.store import read as read_record
from fflbench.registry import Kind
from fflbench.report.robust import slug
from fflbench.suites.plan import Cell, plan
from fflbench.suites.suite import read
from fflbench.tasks import Task

START_UP = 5.0
"""Seconds until workers have imported torch."""


@dataclass(frozen=True)
class Plan:
    """What a run will do."""

    suite: str
    title: str
    store: Store
    cells: list[Cell]
    done: dict[str, Record] = field(default_factory=dict)
    """Records that stand, by cell."""
    force: bool = False
    """Whether everything runs again, from its first round."""
    one_record: bool = False
    """Whether this is no suite but one cell that runs again, which leaves its suite's tables alone."""

    @property
    def open(self) -> list[Cell]:
        """Cells that are still to run."""
        return [cell for cell in self.cells if cell.id not in self.done]


def prepare(
    suite: str,
    *,
    out: str | Path = "results",
    seeds: Sequence[int] | None = None,
    settings: Iterable[str] = (),
    plugins: Sequence[str] = (),
    force: bool = False,
    device: str = "cpu",
) -> Plan:
    """Read a suite (or the record of one cell), check every cell, and see what is already done."""
    for failure in registry.load_named(plugins):
        raise SuiteError(str(failure))
    if device != "cpu":
        check_device(device)
    if suite.endswith(".json"):
        name, title, cells = _from_record(Path(suite), settings, seeds)
        beside = Path(suite).parent
        # What a leaderboard was made from is evidence, and stays as it is.
        store = Store(Path(out) / slug(name) if (beside / SUMS).exists() else beside)
    else:
        told = list(settings) + ([f"seeds = {list(seeds)}"] if seeds is not None else [])
        content = read(suite, told)
        name, title, cells = content.name, content.title, plan(content)
        store = Store(Path(out) / name)
    for cell in cells:
        for kind in cell.kinds:
            if cell.entry(kind).module == "__main__":
                raise SuiteError(
                    f"{cell.entry(kind)} stands in the script itself; move it to a file and name that in plugins"
                )
    planned = Plan(name, title, store, cells, force=force, one_record=suite.endswith(".json"))
    if force:
        return planned
    return replace(planned, done={cell.id: record for cell in cells if (record := _standing(cell, store, name))})


def run(
    suite: str,
    out: str | Path = "results",
    *,
    seeds: Sequence[int] | None = None,
    settings: Iterable[str] = (),
    workers: int | None = None,
    device: str = "cpu",
    plugins: Sequence[str] = (),
    force: bool = False,
    memory_limit: float | None = None,
) -> Records:
    """Run a suite as `fflbench run` does, and return its records, those of earlier runs included.

    `settings` are what the command takes as `--set`, such as "rounds=10"; `memory_limit` is in bytes.
    """
    planned = prepare(str(suite), out=out, seeds=seeds, settings=settings, plugins=plugins, force=force, device=device)
    return carry_out(planned, workers=workers, device=device, plugins=plugins, memory_limit=memory_limit)


def carry_out(
    planned: Plan,
    *,
    workers: int | None = None,
    device: str = "cpu",
    plugins: Sequence[str] = (),
    hear: Callable[[Finished], None] = lambda _: None,
    memory_limit: float | None = None,
) -> Records:
    """Run what is open and return all records of the plan; each is kept as soon as its cell ends."""
    records = dict(planned.done)
    cells = planned.open
    if cells:
        warm_up()
        attacked = [cell for cell in cells if not cell.measure]
        for task in {str(cell.configuration["task"]): cell.create(Kind.TASK) for cell in attacked}.values():
            # Once, here, with its bar: workers find the arrays ready, and too many participants are told at once.
            task.divide(task.data().train.y, seed=0)
        count = max(1, min(workers or os.cpu_count() or 1, len(cells)))
        jobs = [
            Job(cell, planned.store.checkpoint(cell.id), needs, bool(cell.measure and cell.measure.alone))
            for cell, needs in zip(cells, memory_of(cells), strict=True)
        ]
        limit = machine_memory() if memory_limit is None else memory_limit
        events = execute(jobs, planned.suite, workers=count, device=device, plugins=plugins, memory_limit=limit)
        rounds = {cell.id: cell.measure.steps() if cell.measure else cell.create(Kind.TASK).rounds for cell in cells}
        with planned.store.writing(), display(len(cells), rounds, count) as shown, closing(events):
            if planned.force:
                for job in jobs:
                    job.checkpoint.unlink(missing_ok=True)
            for event in events:
                if isinstance(event, Finished):
                    ran = not event.record.error.startswith(TOO_LARGE)
                    # What never ran takes nothing away from what once did.
                    if ran or not planned.store.file(event.cell.id).exists():
                        planned.store.write(event.record)
                    # After an error in its code a cell begins anew; what died of something else may go on.
                    if ran and not event.record.error.startswith(DIED):
                        planned.store.checkpoint(event.cell.id).unlink(missing_ok=True)
                    records[event.cell.id] = event.record
                    hear(event)
                shown.hear(event)
    return Records(records[cell.id] for cell in planned.cells)


def check_device(device: str) -> None:
    """Refuse a device that is not here, before any cell does."""
    import torch

    if not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SuiteError(f"--device {device}: there is no such device here; leave it out to train on the processor")


def estimate(planned: Plan, workers: int | None = None) -> float:
    """Seconds that the open cells will take, from a short calibration of each task."""
    measured = [cell for cell in planned.open if cell.measure]
    attacked = [cell for cell in planned.open if not cell.measure]
    counts = Counter(str(cell.configuration["task"]) for cell in attacked)
    tasks: dict[str, Task] = {str(cell.configuration["task"]): cell.create(Kind.TASK) for cell in attacked}
    total = sum(counts[key] * task.rounds * seconds_per_round(task) for key, task in tasks.items())
    one_by_one = 0.0
    for cell, measure in ((cell, cell.measure) for cell in measured):
        assert measure is not None
        attack = cell.create(measure.attacked) if measure.attacked else None
        seconds = measure.estimate(cell.create(Kind.TASK), cell.create(Kind.DEFENSE), attack)
        if measure.alone:
            one_by_one += seconds
        else:
            total += seconds
    return START_UP + one_by_one + total / max(1, min(workers or os.cpu_count() or 1, len(planned.open)))


def _standing(cell: Cell, store: Store, suite: str) -> Record | None:
    """A record counts if its cell succeeded with the results versions in force; its labels are today's."""
    record = store.read(cell.id)
    if record and cell.measure and set(cell.measure.metrics) - set(record.metrics):
        return None
    if record and record.status == "done" and record.manifest.get("results") == results_versions(cell):
        try:
            store.arrays(record)
        except RecordError as error:
            warnings.warn(f"{error}; its cell runs again", stacklevel=2)
            return None
        return record.model_copy(update={"labels": dict(cell.labels), "suite": suite})
    return None


def _from_record(file: Path, settings: Iterable[str], seeds: Sequence[int] | None) -> tuple[str, str, list[Cell]]:
    if list(settings) or seeds is not None:
        raise SuiteError(f"{file} is the record of one cell, which --set and --seeds cannot change")
    record = read_record(file)
    cell = Cell(record.configuration, record.labels)
    try:
        for kind in cell.kinds:
            cell.create(kind)
    except (FflbenchError, KeyError, TypeError) as error:
        raise RecordError(f"{file} cannot be run again: {error}") from error
    return record.suite, "", [cell]
