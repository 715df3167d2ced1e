"""Executor for the cores of one machine: a pool of worker processes, each of which runs one cell at a time.

A worker that raises sends a failed record; one that dies or takes too long is replaced, and its cell counts as failed.
"""

import math
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fflbench.execution.child_processes import (
    receive_in_thread,
    set_up_child_process,
    start_child_process,
    start_fork_server,
)
from fflbench.execution.jobs_and_events import (
    KILLED_FOR_MEMORY,
    TICK,
    CannotRun,
    Event,
    Events,
    Finished,
    Interrupted,
    Job,
    Note,
    Progress,
    RunSettings,
    Started,
    Stopped,
    failed_cell_event,
    memory_exceeded_event,
    timeout_event,
)
from fflbench.execution.machine_resources import count_out_of_memory_kills, usable_cores, usable_memory
from fflbench.execution.run_cell import CheckpointFile, StoppedError, run_cell
from fflbench.records.record import Record

STOP = "stop"
"""Message that asks a worker to stop its cell."""

REPORT_SECONDS = 0.1
"""Least time between two reports of a worker's rounds."""


@dataclass
class _Worker:
    number: int
    settings: RunSettings
    process: Any = None
    pipe: Any = None
    job: Job | None = None
    since: float = 0.0
    killed_before: int = 0

    def end(self) -> None:
        """Kill the process at once."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    @property
    def overdue(self) -> bool:
        """Whether its cell has exceeded the time limit."""
        return time.monotonic() - self.since > self.settings.timeout

    def send(self, message: object) -> None:
        """Send a message; the death of a worker that cannot receive it is noticed by its sentinel."""
        with suppress(OSError):
            self.pipe.send(message)


def execute(jobs: Sequence[Job], settings: RunSettings) -> Events:
    """Run all jobs and yield events as they happen; closing this generator stops everything at once.

    Jobs run side by side as far as they fit into memory together; one that is larger than the limit fails at once.
    """
    memory_limit = usable_memory() if settings.memory_limit is None else settings.memory_limit
    for job in (job for job in jobs if job.memory > memory_limit):
        yield memory_exceeded_event(job, settings, memory_limit)
    waiting = [job for job in jobs if job.memory <= memory_limit]
    if not waiting:
        return
    count = min(settings.workers or usable_cores(), len(waiting))
    pool = [_Worker(number, settings) for number in range(1, 1 + count)]
    context, stop_sent = start_fork_server(), False
    try:
        while True:
            if settings.stopping.is_set():
                waiting.clear()
            for worker in _assign_jobs(context, pool, waiting, memory_limit):
                yield Started(worker.job.cell, f"worker {worker.number}")
            busy = [worker for worker in pool if worker.job]
            if not busy:
                return
            if settings.stopping.is_set() and not stop_sent:
                stop_sent = True
                _send_all(busy, STOP)
            for worker in _wait_for_messages(busy):
                yield from _read_worker_events(worker)
            yield from _kill_overdue_workers(pool)
            yield None
    finally:
        for worker in pool:
            worker.end()


def _send_all(workers: Sequence[_Worker], message: object) -> None:
    for worker in workers:
        worker.send(message)


def _wait_for_messages(busy: Sequence[_Worker]) -> list[_Worker]:
    """Wait up to one tick, and return the workers that have sent something or died."""
    by_handle = {handle: worker for worker in busy for handle in (worker.pipe, worker.process.sentinel)}
    ready = {by_handle[handle].number: by_handle[handle] for handle in wait(list(by_handle), TICK)}
    return list(ready.values())


def _kill_overdue_workers(pool: Sequence[_Worker]) -> Iterator[Event]:
    """End every worker whose cell has exceeded its time limit; yield the failure of its cell."""
    for worker in pool:
        if worker.job and worker.overdue:
            worker.end()
            yield from _mark_idle_and_yield(worker, timeout_event(worker.job, worker.settings))


def _assign_jobs(context: Any, pool: Sequence[_Worker], waiting: list[Job], memory_limit: float) -> Iterator[Any]:
    """Give every idle worker the first job that may run beside the running ones; yield the workers that got one."""
    for worker in pool:
        running = [other.job for other in pool if other.job]
        free = memory_limit - sum(job.memory for job in running)
        if worker.job or any(job.alone for job in running):
            continue
        for job in waiting:
            if job.memory <= free and not (job.alone and running):
                waiting.remove(job)
                _start_job(context, worker, job)
                yield worker
                break


def _start_job(context: Any, worker: _Worker, job: Job) -> None:
    """Send a job to a worker, after starting a new process if the old one is gone."""
    settings = worker.settings
    if worker.process is None or not worker.process.is_alive():
        worker.end()
        worker.process, worker.pipe = start_child_process(
            context, _run_cells_from_pipe, settings.suite, settings.device, settings.plugins, dict(os.environ)
        )
    worker.job, worker.since, worker.killed_before = job, time.monotonic(), count_out_of_memory_kills()
    worker.send((job.cell, settings.store.checkpoint_file(job.cell.id)))


def _read_worker_events(worker: _Worker) -> Iterator[Event]:
    """Yield the events that a worker has sent; for a dead worker, the failure of its cell."""
    job = worker.job
    assert job is not None
    try:
        while worker.pipe.poll():
            message = worker.pipe.recv()
            if isinstance(message, Record):
                yield from _mark_idle_and_yield(worker, Finished(job.cell, message))
                return
            if isinstance(message, Stopped):
                yield from _mark_idle_and_yield(worker, Interrupted(job.cell, str(message)))
                return
            if isinstance(message, CannotRun):
                yield from _mark_idle_and_yield(
                    worker, failed_cell_event(job, worker.settings, message.reason, ran=False)
                )
                return
            yield message if isinstance(message, Note) else Progress(job.cell, *message)
    except (EOFError, OSError):
        pass
    if not worker.process.is_alive():
        code = worker.process.exitcode
        cause = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        for_memory = code == -signal.SIGKILL and count_out_of_memory_kills() > worker.killed_before
        reason = KILLED_FOR_MEMORY if for_memory else f"the worker died: {cause}"
        yield from _mark_idle_and_yield(worker, failed_cell_event(job, worker.settings, reason))


def _mark_idle_and_yield(worker: _Worker, event: Event) -> Iterator[Event]:
    """Mark a worker as idle, then yield the event that ended its cell."""
    worker.job = None
    yield event


def _run_cells_from_pipe(
    pipe: Connection, suite: str, device: str, plugins: Sequence[str], environment: dict[str, str]
) -> None:
    """Run cells in a worker process: receive one, run it, send its record, wait for the next."""
    _raise_oom_score()
    failures = set_up_child_process(pipe, plugins, environment)
    received: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stopping = threading.Event()

    receive_in_thread(pipe, lambda message: stopping.set() if message == STOP else received.put(message))
    while True:
        cell, checkpoint = received.get()
        if failures:
            # A plugin that the driver could load has changed since.
            pipe.send(CannotRun(failures))
            continue
        try:
            result: object = run_cell(
                cell,
                suite,
                device=device,
                plugins=plugins,
                checkpoint=CheckpointFile(checkpoint),
                report=_make_progress_reporter(pipe),
                stopping=stopping.is_set,
            )
        except StoppedError as stopped:
            result = Stopped(stopped.saved)
        pipe.send(result)


def _make_progress_reporter(pipe: Connection) -> Any:
    """Return a function that reports steps to the driver, at most one per `REPORT_SECONDS`."""
    last = -math.inf

    def report(step: int, accuracy: float | None) -> None:
        nonlocal last
        if time.monotonic() - last >= REPORT_SECONDS:
            last = time.monotonic()
            pipe.send((step, accuracy))

    return report


def _raise_oom_score() -> None:
    """Make the kernel kill a worker rather than the driver or other programs when memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
