"""Run of a suite (`fflbench run`): plan its cells, skip finished ones, execute the others, write records."""

import math
import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from fflbench import registry
from fflbench.errors import FflbenchError, RecordError, SuiteError, spelled_out
from fflbench.execution import local, status
from fflbench.execution.display import display
from fflbench.execution.estimates import memory_of, one_kind, seconds_of
from fflbench.execution.jobs import Event, Events, Finished, Job, Note, Terms
from fflbench.execution.machine import cores, machine_memory
from fflbench.execution.status import Watch
from fflbench.measures.measure import PROCESS_BYTES
from fflbench.progress import quiet
from fflbench.records import packed
from fflbench.records.manifest import results_versions
from fflbench.records.record import Record, Records
from fflbench.records.store import Store
from fflbench.records.store import read as read_record
from fflbench.records.validation import LONGEST_TITLE
from fflbench.registry import Kind
from fflbench.suites.cell import Cell
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from fflbench.tasks import Task
from fflbench.texts import slug

R = TypeVar("R")

EXECUTORS = ("local", "ray")
STOPPING = (
    "stopping: nothing new starts, cells under way keep their state after this round, and those that cannot run to "
    "their end; Ctrl-C again stops at once"
)

START_UP = 5.0
"""Seconds that workers take to import torch."""


@dataclass(frozen=True)
class Plan:
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
    def open(self) -> list[Cell]:
        """Cells that still have to run."""
        return [cell for cell in self.cells if cell.id not in self.done]

    @property
    def changes(self) -> str:
        """Sentence about finished cells that run again because code has changed, or ""."""
        if not self.outdated:
            return ""
        parts = sorted({part for changed in self.outdated.values() for part in changed})
        count = "1 finished cell runs" if len(self.outdated) == 1 else f"{len(self.outdated)} finished cells run"
        return f"{count} again, since what they were made with has changed: {', '.join(parts)}"


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
    """Read a suite (or the record of one cell), check every cell, and look up finished ones."""
    for failure in registry.load_named(plugins):
        raise SuiteError(str(failure))
    if device != "cpu":
        check_device(device)
    on_board = packed.names_one(Path(suite))
    one_record = on_board or suite.endswith(".json")
    if one_record:
        name, title, cells = _from_record(Path(suite), settings, seeds)
        # The records of a leaderboard are evidence and are never overwritten.
        store = Store(Path(out) / slug(name) if on_board else Path(suite).parent)
    else:
        changes = list(settings) + ([f"seeds = {list(seeds)}"] if seeds is not None else [])
        content = read(suite, changes)
        name, title, cells = content.name, content.title, plan(content)
        store = Store(Path(out) / name)
    for cell in cells:
        for entry in cell.entries.values():
            if entry.module == "__main__":
                raise SuiteError(f"{entry} stands in the script itself; move it to a file and name that in plugins")
        for file in (store.file(cell.id), store.arrays_file(cell.id), store.checkpoint(cell.id)):
            if os.path.isdir(file):  # noqa: PTH112 (a name too long for a folder is none)
                raise RecordError(f"{file} is a folder where a file of a record should be; move it away")
    planned = Plan(name, title, store, cells, force=force, one_record=one_record)
    if force:
        return planned
    finished = {cell.id: record for cell in cells if (record := _finished(cell, store))}
    outdated = {
        cell.id: changed for cell in cells if cell.id in finished and (changed := _changed(finished[cell.id], cell))
    }
    done = {
        cell.id: _labelled(finished[cell.id], cell, name)
        for cell in cells
        if cell.id in finished and cell.id not in outdated
    }
    relabelled = {key: record for key, record in done.items() if not one_record and _new_labels(record, finished[key])}
    return replace(planned, done=done, relabelled=relabelled, outdated=outdated)


@dataclass(frozen=True)
class Options:
    """Options of a run that change no result."""

    workers: int | None = None
    """Cells that run at the same time; by default one per core, or as many as the cluster has room for."""
    device: str = "cpu"
    plugins: tuple[str, ...] = ()
    memory_limit: float | None = None
    """Most bytes that cells may take together on this machine."""
    cell_timeout: float = math.inf
    """Seconds after which a cell is cancelled."""
    executor: str = "local"
    address: str | None = None
    """Address of a Ray cluster."""
    retries: int = 3
    """Retries of a cell that was lost with its node."""
    log_json: bool = False
    command: str = ""
    """Command line of the run, as `fflbench status` shows it."""
    data_dir: Path | None = None
    """Folder of data sets, if given; part of the command that runs a failed cell again."""

    @property
    def device_here(self) -> str:
        """Device that this machine must have; the nodes of a cluster check their own."""
        return self.device if self.executor == "local" else "cpu"

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise SuiteError(f'--executor "{self.executor}": one of {", ".join(EXECUTORS)}')
        if self.address and self.executor != "ray":
            raise SuiteError("--address is that of a Ray cluster: add --executor ray")
        if self.address and self.address not in ("auto", "local") and not re.search(r":\d+$", self.address):
            raise SuiteError(f"--address {self.address}: a machine and a port are needed, as in 10.0.0.1:6379")


def run(
    suite: str,
    out: str | Path = "results",
    *,
    seeds: Sequence[int] | None = None,
    settings: Iterable[str] = (),
    force: bool = False,
    plugins: Sequence[str] = (),
    **options: Any,
) -> Records:
    """Run a suite as `fflbench run` does, and return its records, those of earlier runs included.

    `settings` are values of `--set`, such as "rounds=10". The other options have the names of the command's options:
    workers, device, memory_limit (bytes), cell_timeout (seconds), executor, address, retries, log_json.
    """
    chosen = Options(plugins=tuple(plugins), **options)
    planned = prepare(
        str(suite), out=out, seeds=seeds, settings=settings, plugins=plugins, force=force, device=chosen.device_here
    )
    return carry_out(planned, chosen)


def carry_out(planned: Plan, options: Options, hear: Callable[[Finished], None] = lambda _: None) -> Records:
    """Run the open cells and return all records of the plan; each is written as soon as its cell ends.

    The first Ctrl-C starts no new cell and lets running ones save their state, the second stops at once; both raise
    `KeyboardInterrupt`.
    """
    records, cells = dict(planned.done), planned.open
    if planned.relabelled:
        with planned.store.writing():
            for record in planned.relabelled.values():
                planned.store.write(record)
    if cells:
        with planned.store.writing(), closing(_events(planned, cells, options)) as events:
            for event in events:
                if isinstance(event, Finished):
                    records[event.cell.id] = event.record
                    hear(event)
    return Records(records[cell.id] for cell in planned.cells)


def _events(planned: Plan, cells: list[Cell], options: Options) -> Generator[Event, None, None]:
    """Run cells, write their records, display the events and yield them."""
    rounds = {cell.id: cell.measure.steps(cell.create(Kind.TASK)) for cell in cells}
    # A single cell that runs again must not replace the status of its suite's run.
    file = None if planned.one_record else planned.store.folder / status.FILE
    watch = Watch(planned.suite, options.command, len(planned.cells), rounds, file)
    terms = Terms(planned.suite, planned.store, options.device, options.plugins, options.cell_timeout)
    ended, announced = 0, False
    try:
        seconds, needs = _estimates(cells, options)
        watch.expect(seconds)
        # Longest first, so that short cells fill the gaps at the end.
        jobs = sorted(_jobs(cells, needs, options.device), key=lambda job: -seconds[job.cell.id])
        if planned.force:
            for job in jobs:
                planned.store.checkpoint(job.cell.id).unlink(missing_ok=True)
        with (
            stoppable(terms.stopping),
            display(as_json=options.log_json) as shown,
            closing(_execute(jobs, terms, options)) as events,
        ):
            for event in events:
                if isinstance(event, Finished):
                    event = _with_title(_with_command(event, planned.store, options), planned.title)
                    _keep(planned.store, event)
                    ended += 1
                shown.hear(event, watch.hear(event))
                if terms.stopping.is_set() and not announced:
                    announced, watch.now.state = True, "stopping"
                    shown.hear(Note(STOPPING), watch.now)
                if event:
                    yield event
        watch.end("finished" if ended == len(jobs) else "stopped")
    except BaseException:
        watch.end("stopped")
        raise
    if ended < len(jobs):
        raise KeyboardInterrupt


def _execute(jobs: Sequence[Job], terms: Terms, options: Options) -> Events:
    """Run jobs on this machine or on a cluster; those that measure time, and so run alone, stay on this machine."""
    here = jobs
    if options.executor == "ray":
        from fflbench.execution import cluster

        away = [job for job in jobs if not job.alone]
        here = [job for job in jobs if job.alone]
        if away:
            yield from cluster.execute(
                away, terms, address=options.address, workers=options.workers, retries=options.retries
            )
    count = max(1, min(options.workers or cores(), len(here)))
    limit = machine_memory() if options.memory_limit is None else options.memory_limit
    if not terms.stopping.is_set():
        yield from local.execute(here, terms, workers=count, memory_limit=limit)


def _estimates(cells: list[Cell], options: Options) -> tuple[dict[str, float], list[int]]:
    """Return the estimated seconds and bytes of cells; prepare their data if they run on this machine.

    This runs in other processes, since it imports torch, which the driver needs for nothing else, and runs code of
    plugins. Errors there are reported later by the cells themselves.
    """

    def ask(function: Callable[..., R], *arguments: Any, otherwise: R, timeout: float = options.cell_timeout) -> R:
        try:
            return local.ask(function, cells, *arguments, plugins=options.plugins, timeout=timeout)
        except local.DiedError:
            return otherwise

    here, unseen = options.executor == "local", options.log_json
    if here and any(cell.data_set for cell in cells):
        # Without a time limit, since the data may have to be downloaded.
        ask(_prepare, unseen, otherwise=None, timeout=math.inf)
    estimated = ask(_estimate, here, unseen, otherwise=None)
    # If timing a defense ended the process, its memory can still be estimated.
    needs, seconds = estimated or (ask(memory_of, otherwise=[PROCESS_BYTES] * len(cells)), [1.0] * len(cells))
    return dict(zip((cell.id for cell in cells), seconds, strict=True)), needs


def _prepare(cells: list[Cell], unseen: bool) -> None:
    """Prepare the data sets of tasks once, with progress bars, before workers need them."""
    with quiet() if unseen else nullcontext():
        for task in _tasks_with_data(cells):
            if task.data_set and type(task).data is Task.data:
                with _errors_left_to_cells():
                    task.data()


def _estimate(cells: list[Cell], here: bool, unseen: bool) -> tuple[list[int], list[float]]:
    """Return the estimated bytes and seconds of each cell; refuse more participants than the data allows."""
    with quiet() if unseen else nullcontext():
        for task in _tasks_with_data(cells) if here else ():
            with _errors_left_to_cells():
                task.divide(task.data().train.y, seed=0)
        # Equal times put no cell before another.
        return memory_of(cells), [1.0] * len(cells) if one_kind(cells) else seconds_of(cells)


@contextmanager
def _errors_left_to_cells() -> Iterator[None]:
    """Let errors that the user can fix pass, and ignore others, which the cells of the task will report."""
    try:
        yield
    except FflbenchError:
        raise
    except (Exception, SystemExit):  # noqa: S110
        pass


def _tasks_with_data(cells: Sequence[Cell]) -> list[Task]:
    """Return the tasks of cells whose measures need data."""
    needing = [cell for cell in cells if cell.measure.needs_data]
    return list({str(cell.configuration["task"]): cell.create(Kind.TASK) for cell in needing}.values())


def _jobs(cells: Sequence[Cell], needs: Sequence[int], device: str) -> Iterator[Job]:
    for cell, memory in zip(cells, needs, strict=True):
        task: Task = cell.create(Kind.TASK)
        measure, gpus = cell.measure, task.gpus if device.startswith("cuda") else 0
        yield Job(cell, memory, measure.alone, max(task.cpus, measure.threads), gpus)


def _with_command(event: Finished, store: Store, options: Options) -> Finished:
    """Return the event with the command that runs a failed cell alone, from the folder where this run was started."""
    record = event.record
    if record.status == "done":
        return event
    data = ("--data-dir", str(options.data_dir)) if options.data_dir else ()
    alone = {"run_alone": spelled_out(record.command(store.file(record.id), *data))}
    return replace(event, record=record.model_copy(update={"facts": alone}))


def _with_title(event: Finished, title: str) -> Finished:
    """Return the event with the suite's title in its record, for leaderboards made without the suite's file."""
    return replace(event, record=event.record.model_copy(update={"title": title[:LONGEST_TITLE]}))


def _keep(store: Store, event: Finished) -> None:
    # The failure of a cell that never ran must not replace an earlier record.
    if event.ran or not store.file(event.cell.id).exists():
        store.write(event.record)
    # After an error in its own code a cell starts from its first round.
    if not event.resumes:
        store.checkpoint(event.cell.id).unlink(missing_ok=True)


@contextmanager
def stoppable(stopping: threading.Event) -> Iterator[None]:
    """Set a flag at the first Ctrl-C, or signal of a batch system or closing terminal; a second Ctrl-C interrupts.

    Other signals never interrupt, since a closing terminal may send its signal twice.
    """

    def handle(number: int, _: object) -> None:
        if stopping.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Signals that a shell ignores for background jobs stay ignored.
    handled = [number for number in local.DRIVER_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_device(device: str) -> None:
    """Refuse a device that this machine lacks, before any cell runs."""
    import torch

    if not (device.startswith("cuda") and torch.cuda.is_available()):
        raise SuiteError(f"--device {device}: there is no such device here; leave it out to train on the processor")


def estimate(planned: Plan, workers: int | None = None) -> float:
    """Return the estimated seconds of the open cells on this machine, from a short calibration of each task."""
    expected = list(zip(planned.open, seconds_of(planned.open), strict=True))
    one_by_one = sum(seconds for cell, seconds in expected if cell.measure.alone)
    together = sum(seconds for cell, seconds in expected if not cell.measure.alone)
    return START_UP + one_by_one + together / max(1, min(workers or cores(), len(planned.open)))


def _finished(cell: Cell, store: Store) -> Record | None:
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


def _labelled(record: Record, cell: Cell, suite: str) -> Record:
    """Return a finished cell's record with the current labels of the suite."""
    sweeps = {"sweep": dict(cell.sweep), "shared_by": dict(cell.shared_by)}
    return record.model_copy(update={"labels": dict(cell.labels), "suite": suite, **sweeps})


def _new_labels(now: Record, kept: Record) -> bool:
    """Return whether a suite shows a record under a label that its file does not have.

    A run of fewer defenses removes no label: the rows of the others stay in the folder.
    """
    rows = [{record.labels["defense"], *record.shared_by} for record in (now, kept)]
    others = [{**record.labels, "defense": ""} for record in (now, kept)]
    return not rows[0] <= rows[1] or others[0] != others[1]


def _changed(record: Record, cell: Cell) -> list[str]:
    """Return the parts of a cell whose results version or source has changed since its record was written."""
    made, now = record.manifest.get("results"), results_versions(cell.configuration)
    before = made if isinstance(made, dict) else {}
    parts = {key: str(entry) for key, entry in cell.entries.items()}
    return [parts.get(part, "fflbench itself") for part, version in now.items() if before.get(part) != version]


def _from_record(file: Path, settings: Iterable[str], seeds: Sequence[int] | None) -> tuple[str, str, list[Cell]]:
    if list(settings) or seeds is not None:
        raise SuiteError(f"{file} is the record of one cell, which --set and --seeds cannot change")
    record = read_record(file)
    cell = Cell.of(record)
    try:
        cell.created()
    except (FflbenchError, KeyError, TypeError) as error:
        raise RecordError(f"{file} cannot be run again: {error}") from error
    return record.suite, record.title, [cell]
