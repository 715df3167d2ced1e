"""Executor for the cores of one machine: a pool of worker processes, one cell at a time each.

A worker that raises sends a failed record; one that dies or takes too long is replaced, and its cell counts as failed.
Workers end with their driver, however that ends.
"""

import math
import multiprocessing
import multiprocessing.forkserver as forkserver
import multiprocessing.resource_tracker as resource_tracker
import os
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from fflbench.errors import FflbenchError, SuiteError, in_a_line
from fflbench.execution.cell import File, StoppedError, play
from fflbench.execution.jobs import (
    LOST_FOR_MEMORY,
    TICK,
    Event,
    Events,
    Finished,
    Job,
    Note,
    Progress,
    Returned,
    Started,
    Stopped,
    Terms,
    Unfit,
    failed,
    too_large,
    too_long,
)
from fflbench.execution.machine import killed_for_memory
from fflbench.records.record import Record

R = TypeVar("R")

DRIVER_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that only the driver handles: Ctrl-C, the end of a batch job, a terminal that was closed."""

STOP = "stop"
"""Message that asks a worker to stop its cell."""

REPORT_SECONDS = 0.1
"""Least time between two reports of a worker's rounds."""


class DiedError(Exception):
    """Process that died before it returned a result, or took too long."""


@dataclass
class _Worker:
    number: int
    terms: Terms
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
        return time.monotonic() - self.since > self.terms.timeout

    def send(self, message: object) -> None:
        """Send a message; the death of a worker that cannot receive it is noticed by its sentinel."""
        with suppress(OSError):
            self.pipe.send(message)


def execute(jobs: Sequence[Job], terms: Terms, *, workers: int, memory_limit: float = math.inf) -> Events:
    """Run all jobs and yield events as they happen; closing this generator stops everything at once.

    Jobs run side by side as far as they fit into memory together; one that is larger than the limit fails at once.
    """
    for job in (job for job in jobs if job.memory > memory_limit):
        yield too_large(job, terms, memory_limit)
    waiting = [job for job in jobs if job.memory <= memory_limit]
    team = [_Worker(number, terms) for number in range(1, 1 + min(workers, len(waiting)))]
    if not waiting:
        return
    context, stop_sent = warm_up(), False
    try:
        while True:
            if terms.stopping.is_set():
                waiting.clear()
            for worker in _hand_out(context, team, waiting, memory_limit):
                yield Started(worker.job.cell, f"worker {worker.number}")
            busy = [worker for worker in team if worker.job]
            if not busy:
                return
            if terms.stopping.is_set() and not stop_sent:
                stop_sent = True
                _send_all(busy, STOP)
            for worker in _ready(busy):
                yield from _events_of(worker)
            yield from _timed_out(team)
            yield None
    finally:
        for worker in team:
            worker.end()


def _send_all(workers: Sequence[_Worker], message: object) -> None:
    for worker in workers:
        worker.send(message)


def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
    """Wait up to one tick, and return the workers that have sent something or died."""
    by_handle = {handle: worker for worker in busy for handle in (worker.pipe, worker.process.sentinel)}
    ready = {by_handle[handle].number: by_handle[handle] for handle in wait(list(by_handle), TICK)}
    return list(ready.values())


def _timed_out(team: Sequence[_Worker]) -> Iterator[Event]:
    """End every worker whose cell has exceeded its time limit; yield the failure of its cell."""
    for worker in team:
        if worker.job and worker.overdue:
            worker.end()
            yield from _free(worker, too_long(worker.job, worker.terms))


def warm_up() -> Any:
    """Start the server that workers are forked from and let it import torch; the earlier, the better.

    Workers are forks of it, since a fork of this process could inherit a lock that another thread holds.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fflbench.federation.rounds"])
    # The server inherits these signals blocked, so that only the driver handles them; here they are pending until the
    # server has started. The resource tracker that the server would start unblocks them again, so it is started first.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, DRIVER_SIGNALS)
    try:
        with _without_main():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return context


def ask(function: Callable[..., R], *arguments: Any, plugins: Sequence[str] = (), timeout: float = math.inf) -> R:
    """Call a function in a new process, where torch is already imported; return its result or raise its error."""
    context = warm_up()
    pipe, theirs = context.Pipe()
    process = context.Process(
        target=_answer, args=(theirs, tuple(plugins), dict(os.environ), function, arguments), daemon=True
    )
    with _without_main():
        process.start()
    theirs.close()
    end = time.monotonic() + timeout
    try:
        while isinstance(message := _received(pipe, end), Note):
            warnings.warn(message.text, stacklevel=2)
    except (EOFError, OSError):
        raise DiedError from None
    finally:
        process.kill()
        process.join()
        pipe.close()
    if isinstance(message, FflbenchError):
        raise message
    answer: R = message
    return answer


def _received(pipe: Connection, end: float) -> Any:
    """Return the next message of a process, or raise `DiedError` once the time `end` has come."""
    # In ticks, since poll() takes no infinite timeout.
    while not pipe.poll(max(0.0, min(TICK, end - time.monotonic()))):
        if time.monotonic() >= end:
            raise DiedError
    return pipe.recv()


def _answer(
    pipe: Connection,
    plugins: Sequence[str],
    environment: dict[str, str],
    function: Callable[..., object],
    arguments: Sequence[Any],
) -> None:
    failures = _set_up(pipe, plugins, environment)
    _listen(pipe, lambda _: None)
    try:
        result = SuiteError(failures) if failures else function(*arguments)
    except FflbenchError as error:
        result = error
    except (Exception, SystemExit) as error:
        # An exception of a plugin's own class may not unpickle in the driver.
        result = FflbenchError(in_a_line(error))
    pipe.send(result)


def _listen(pipe: Connection, handle: Callable[[Any], None]) -> None:
    """Receive the driver's messages in a thread, and exit with the driver: without it no records are written."""

    def listen() -> None:
        try:
            while True:
                handle(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def _set_up(pipe: Connection, plugins: Sequence[str], environment: dict[str, str]) -> str:
    """Set up a new process; return the errors of plugins that could not be loaded, or an empty text."""
    for number in DRIVER_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(environment)
    # The driver shows warnings, wherever they come from.
    warnings.showwarning = lambda message, *_, **__: pipe.send(Note(str(message)))
    from fflbench import registry

    return "; ".join(map(str, registry.load_named(plugins)))


def _hand_out(context: Any, team: Sequence[_Worker], waiting: list[Job], memory_limit: float) -> Iterator[Any]:
    """Give every idle worker the first job that may run beside the running ones; yield the workers that got one."""
    for worker in team:
        running = [other.job for other in team if other.job]
        free = memory_limit - sum(job.memory for job in running)
        if worker.job or any(job.alone for job in running):
            continue
        for job in waiting:
            if job.memory <= free and not (job.alone and running):
                waiting.remove(job)
                _give(context, worker, job)
                yield worker
                break


def _give(context: Any, worker: _Worker, job: Job) -> None:
    """Send a job to a worker, after starting a new process if the old one is gone."""
    if worker.process is None or not worker.process.is_alive():
        worker.end()
        pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *_portable(worker.terms)), daemon=True)
        with _without_main():
            process.start()
        theirs.close()
        worker.process, worker.pipe = process, pipe
    worker.job, worker.since, worker.killed_before = job, time.monotonic(), killed_for_memory()
    worker.send((job.cell, worker.terms.store.checkpoint(job.cell.id)))


def _portable(terms: Terms) -> tuple[str, str, tuple[str, ...], dict[str, str]]:
    """Return the part of the terms that is sent to another process."""
    return terms.suite, terms.device, terms.plugins, dict(os.environ)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main script from new processes, which would import it and thereby run it again."""
    main: dict[str, Any] = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(hidden)


def _events_of(worker: _Worker) -> Iterator[Event]:
    """Yield the events that a worker has sent; for a dead worker, the failure of its cell."""
    job = worker.job
    assert job is not None
    try:
        while worker.pipe.poll():
            message = worker.pipe.recv()
            if isinstance(message, Record):
                yield from _free(worker, Finished(job.cell, message))
                return
            if isinstance(message, Stopped):
                yield from _free(worker, Returned(job.cell, str(message)))
                return
            if isinstance(message, Unfit):
                yield from _free(worker, failed(job, worker.terms, message.why, ran=False))
                return
            yield message if isinstance(message, Note) else Progress(job.cell, *message)
    except (EOFError, OSError):
        pass
    if not worker.process.is_alive():
        code = worker.process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        for_memory = code == -signal.SIGKILL and killed_for_memory() > worker.killed_before
        yield from _free(
            worker, failed(job, worker.terms, LOST_FOR_MEMORY if for_memory else f"the worker died: {how}")
        )


def _free(worker: _Worker, event: Event) -> Iterator[Event]:
    """Free a worker, then yield the event that ended its cell."""
    worker.job = None
    yield event


def _work(pipe: Connection, suite: str, device: str, plugins: Sequence[str], environment: dict[str, str]) -> None:
    """Run cells in a worker process: receive one, run it, send its record, wait for the next."""
    _raise_oom_score()
    failures = _set_up(pipe, plugins, environment)
    given: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stopping = threading.Event()

    _listen(pipe, lambda message: stopping.set() if message == STOP else given.put(message))
    while True:
        cell, checkpoint = given.get()
        if failures:
            # A plugin that the driver could load has changed since.
            pipe.send(Unfit(failures))
            continue
        try:
            result: object = play(
                cell,
                suite,
                device=device,
                plugins=plugins,
                checkpoint=File(checkpoint),
                report=_reporter(pipe),
                stopping=stopping.is_set,
            )
        except StoppedError as stopped:
            result = Stopped(stopped.kept)
        pipe.send(result)


def _reporter(pipe: Connection) -> Any:
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
