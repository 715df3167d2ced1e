"""Run of a suite (`fflbench run`): plan its cells, skip finished ones, execute the others, write records."""

import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fflbench import registry
from fflbench.errors import SuiteError, escape_undecodable
from fflbench.execution import run_status
from fflbench.execution.cells_to_run import RunPlan, plan_run
from fflbench.execution.child_processes import DRIVER_SIGNALS
from fflbench.execution.estimates import estimate_seconds
from fflbench.execution.jobs_and_events import Event, Events, Executor, Finished, Job, Note, RunSettings
from fflbench.execution.machine_resources import usable_cores
from fflbench.execution.prepare_data_and_estimate import prepare_data_and_estimate
from fflbench.execution.progress_display import open_display
from fflbench.execution.run_options import LOCAL, Options
from fflbench.execution.run_status import StatusTracker
from fflbench.records.store import Store
from fflbench.records.validation import LONGEST_TITLE
from fflbench.registry import Kind
from fflbench.report.loaded_records import Records
from fflbench.safe_texts import count_with_noun
from fflbench.suites.cell import Cell
from fflbench.tasks import Task

STOPPING = (
    "stopping: no cell starts any more; running cells save their state after the current round, or run to their end "
    "if they cannot; Ctrl-C again stops at once"
)

START_UP = 5.0
"""Seconds that workers take to import torch."""


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
    return run_planned_cells(plan_run(str(suite), chosen, out=out, seeds=seeds, settings=settings, force=force), chosen)


def run_planned_cells(
    planned: RunPlan, options: Options, on_finished: Callable[[Finished], None] = lambda _: None
) -> Records:
    """Run the cells of a plan that are not done and return all its records; each is written as soon as its cell ends.

    The first Ctrl-C starts no new cell and lets running ones save their state, the second stops at once; both raise
    `KeyboardInterrupt`.
    """
    records, cells = dict(planned.done), planned.to_run
    # A kill may fall between a record and the end of its checkpoint.
    left_over = [file for cell in planned.done if (file := planned.store.checkpoint_file(cell)).exists()]
    if planned.relabelled or left_over:
        with planned.store.locked():
            for record in planned.relabelled.values():
                planned.store.write(record)
            for file in left_over:
                file.unlink(missing_ok=True)
    if cells:
        with planned.store.locked(), closing(_run_and_record_cells(planned, cells, options)) as events:
            for event in events:
                if isinstance(event, Finished):
                    records[event.cell.id] = event.record
                    on_finished(event)
    return Records(records[cell.id] for cell in planned.cells)


def _run_and_record_cells(planned: RunPlan, cells: list[Cell], options: Options) -> Generator[Event, None, None]:
    """Run cells, write their records, display the events and yield them."""
    rounds = {cell.id: cell.measure.step_count(cell.create(Kind.TASK)) for cell in cells}
    # A single cell that runs again must not replace the status of its suite's run.
    file = None if planned.one_record else planned.store.folder / run_status.FILE
    tracker = StatusTracker(planned.suite, options.command, len(planned.cells), rounds, file)
    settings = _make_run_settings(planned, options)
    ended, announced = 0, False
    try:
        seconds, needs = prepare_data_and_estimate(cells, options)
        tracker.expect(seconds)
        # Longest first, so that short cells fill the gaps at the end.
        jobs = sorted(_make_jobs(cells, needs, options.device), key=lambda job: -seconds[job.cell.id])
        if planned.force:
            for job in jobs:
                planned.store.checkpoint_file(job.cell.id).unlink(missing_ok=True)
        with (
            stop_on_signals(settings.stopping),
            open_display(as_json=options.log_json) as shown,
            closing(_run_jobs(jobs, settings, options.executor)) as events,
        ):
            for event in events:
                if isinstance(event, Finished):
                    event = _with_suite_title(_with_rerun_command(event, planned.store, options), planned.title)
                    _write_record(planned.store, event)
                    ended += 1
                shown.show(event, tracker.update(event))
                if settings.stopping.is_set() and not announced:
                    announced, tracker.now.state = True, "stopping"
                    shown.show(Note(STOPPING), tracker.now)
                if event:
                    yield event
        tracker.end("finished" if ended == len(jobs) else "stopped")
    except BaseException:
        tracker.end("stopped")
        raise
    if ended < len(jobs) and not settings.stopping.is_set():
        missing = count_with_noun(len(jobs) - ended, "cell")
        raise SuiteError(f'executor "{options.executor}" must yield a result for each cell; it gave none for {missing}')
    if ended < len(jobs):
        raise KeyboardInterrupt


def _make_run_settings(planned: RunPlan, options: Options) -> RunSettings:
    return RunSettings(
        planned.suite,
        planned.store,
        options.device,
        options.plugins,
        timeout=options.cell_timeout,
        workers=options.workers,
        memory_limit=options.memory_limit,
        address=options.address,
        retries=options.retries,
    )


def _run_jobs(jobs: Sequence[Job], settings: RunSettings, executor: str) -> Events:
    """Run jobs with an executor; those that measure time, and so run alone, stay on this machine."""
    elsewhere = [] if executor == LOCAL else [job for job in jobs if not job.alone]
    here = [job for job in jobs if executor == LOCAL or job.alone]
    for name, part in ((executor, elsewhere), (LOCAL, here)):
        execute: Executor = registry.get(Kind.EXECUTOR, name).target
        if part and not settings.stopping.is_set():
            yield from execute(part, settings)


def _make_jobs(cells: Sequence[Cell], needs: Sequence[int], device: str) -> Iterator[Job]:
    for cell, memory in zip(cells, needs, strict=True):
        task: Task = cell.create(Kind.TASK)
        measure, gpus = cell.measure, task.gpus if device.startswith("cuda") else 0
        yield Job(cell, memory, measure.alone, max(task.cpus, measure.threads), gpus)


def _with_rerun_command(event: Finished, store: Store, options: Options) -> Finished:
    """Return the event with the command that runs a failed cell alone, from the folder where this run was started."""
    record = event.record
    if record.status == "done":
        return event
    data = ("--data-dir", str(options.data_dir)) if options.data_dir else ()
    alone = {"run_alone": escape_undecodable(record.run_command(store.record_file(record.id), *data))}
    return replace(event, record=record.model_copy(update={"facts": alone}))


def _with_suite_title(event: Finished, title: str) -> Finished:
    """Return the event with the suite's title in its record, for leaderboards made without the suite's file."""
    return replace(event, record=event.record.model_copy(update={"title": title[:LONGEST_TITLE]}))


def _write_record(store: Store, event: Finished) -> None:
    # The failure of a cell that never ran must not replace an earlier record.
    if event.ran or not store.record_file(event.cell.id).exists():
        store.write(event.record)
    # After an error in its own code a cell starts from its first round.
    if not event.resumes:
        store.checkpoint_file(event.cell.id).unlink(missing_ok=True)


@contextmanager
def stop_on_signals(stopping: threading.Event) -> Iterator[None]:
    """Set a flag at the first Ctrl-C, or signal of a batch system or closing terminal; a second Ctrl-C interrupts.

    Other signals never interrupt, since a closing terminal may send its signal twice.
    """
    signalled = False

    def handle(number: int, _: object) -> None:
        # Before `set`, whose lock a second signal in the middle of it would wait for without end.
        nonlocal signalled
        again, signalled = signalled or stopping.is_set(), True
        if not again:
            stopping.set()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Signals that a shell ignores for background jobs stay ignored.
    handled = [number for number in DRIVER_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def estimate_run_seconds(planned: RunPlan, workers: int | None = None, device: str = "cpu") -> float:
    """Return the estimated seconds of the cells to run on this machine, from a short calibration of each task."""
    expected = list(zip(planned.to_run, estimate_seconds(planned.to_run, device), strict=True))
    one_by_one = sum(seconds for cell, seconds in expected if cell.measure.alone)
    together = [(cell, seconds) for cell, seconds in expected if not cell.measure.alone]
    shared = sum(seconds for _, seconds in together) / max(1, min(workers or usable_cores(), len(planned.to_run)))
    if device.startswith("cuda"):
        # Cells side by side share the GPU.
        shared = max(shared, sum(seconds * cell.create(Kind.TASK).gpus for cell, seconds in together))
    return START_UP + one_by_one + shared
