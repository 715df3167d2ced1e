"""Cells on the cores of one machine: as many processes as asked for, one cell at a time each.

The driver alone writes records. A worker that raises sends a failed record; one that dies is replaced, and its cell
counts as failed. Workers end with their driver, however that ends.
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
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fflbench.execution.cell import play, record_of
from fflbench.measures import readable_bytes
from fflbench.records.record import Record
from fflbench.suites.plan import Cell

DIED = "the worker died"
TOO_LARGE = "needs more memory than there is"


@dataclass(frozen=True)
class Job:
    """A cell, where it may keep its state, and what it asks of the machine."""

    cell: Cell
    checkpoint: Path
    memory: int = 0
    """Bytes it takes, about."""
    alone: bool = False
    """Whether nothing may run beside it."""


@dataclass(frozen=True)
class Progress:
    """A cell has played a round."""

    cell: Cell
    worker: int
    round: int
    accuracy: float | None


@dataclass(frozen=True)
class Finished:
    """A cell has ended, well or not."""

    cell: Cell
    worker: int
    record: Record


@dataclass
class _Worker:
    number: int
    suite: str
    device: str
    plugins: Sequence[str]
    process: Any = None
    pipe: Any = None
    job: Job | None = None

    def end(self) -> None:
        """Stop at once."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()


def execute(
    jobs: Sequence[Job],
    suite: str,
    *,
    workers: int,
    device: str,
    plugins: Sequence[str],
    memory_limit: float = math.inf,
) -> Generator[Progress | Finished, None, None]:
    """Run all jobs; yields what happens, as it happens. Closing this generator stops everything at once.

    Jobs run side by side as far as they fit into memory together; one that is larger than the limit fails at once.
    """
    waiting = list(jobs)
    team = [_Worker(number, suite, device, plugins) for number in range(min(workers, len(jobs)))]
    for job in [job for job in jobs if job.memory > memory_limit]:
        waiting.remove(job)
        needs, limit = readable_bytes(job.memory), readable_bytes(memory_limit)
        error = f"{TOO_LARGE}: about {needs}, and the limit is {limit} (--memory-limit)"
        yield Finished(job.cell, 0, record_of(job.cell, suite, device, plugins, status="failed", error=error))
    if not waiting:
        return
    context = warm_up()
    try:
        _hand_out(context, team, waiting, memory_limit)
        while busy := [worker for worker in team if worker.job]:
            by_handle = {handle: worker for worker in busy for handle in (worker.pipe, worker.process.sentinel)}
            ready = {by_handle[handle].number: by_handle[handle] for handle in wait(list(by_handle))}
            for worker in ready.values():
                for message in _messages(worker):
                    yield message
                    if isinstance(message, Finished):
                        worker.job = None
                        _hand_out(context, team, waiting, memory_limit)
    finally:
        for worker in team:
            worker.end()


def warm_up() -> Any:
    """Let the server that workers come from import torch, once for all; the sooner it is asked to, the better.

    Workers are forks of it, since a fork of this process could inherit a lock that somebody holds.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fflbench.federation.rounds"])
    # The server inherits that Ctrl-C is blocked; for us it only waits until the server is under way. The tracker that
    # the server starts along the way unblocks it again, so it has to be there before.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _without_main():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return context


def _hand_out(context: Any, team: Sequence[_Worker], waiting: list[Job], memory_limit: float) -> None:
    """Give every idle worker the first job that may run beside those that are running."""
    for worker in team:
        running = [other.job for other in team if other.job]
        free = memory_limit - sum(job.memory for job in running)
        if worker.job or any(job.alone for job in running):
            continue
        for job in waiting:
            if job.memory <= free and not (job.alone and running):
                waiting.remove(job)
                _give(context, worker, job)
                break


def _give(context: Any, worker: _Worker, job: Job) -> None:
    """Hand a job to a worker, a new process if the old one is gone."""
    if worker.process is None or not worker.process.is_alive():
        worker.end()
        pipe, theirs = context.Pipe()
        arguments = theirs, worker.suite, worker.device, tuple(worker.plugins), dict(os.environ)
        process = context.Process(target=_work, args=arguments, daemon=True)
        with _without_main():
            process.start()
        theirs.close()
        worker.process, worker.pipe = process, pipe
    worker.job = job
    # A worker that died just now is found out by its sentinel.
    with suppress(OSError):
        worker.pipe.send(worker.job)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the script that calls us: a worker needs nothing of it, and would run it again to import it."""
    main: dict[str, Any] = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(hidden)


def _messages(worker: _Worker) -> Iterator[Progress | Finished]:
    """What a worker has to say; the last word of a dead one is that its cell failed."""
    job = worker.job
    try:
        while job and worker.pipe.poll():
            said = worker.pipe.recv()
            if isinstance(said, Record):
                yield Finished(job.cell, worker.number, said)
                return
            yield Progress(job.cell, worker.number, *said)
    except (EOFError, OSError):
        pass
    if job and not worker.process.is_alive():
        code = worker.process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        failed = record_of(
            job.cell, worker.suite, worker.device, worker.plugins, status="failed", error=f"{DIED}: {how}"
        )
        yield Finished(job.cell, worker.number, failed)


def _work(pipe: Connection, suite: str, device: str, plugins: Sequence[str], environment: dict[str, str]) -> None:
    """What a worker does: take a cell, play it, send its record, take the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    from fflbench import registry

    registry.load_named(plugins)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                jobs.put(pipe.recv())
        except (EOFError, OSError):
            # The driver is gone: nobody is left to write a record.
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        job = jobs.get()
        record = play(
            job.cell,
            suite,
            device=device,
            plugins=plugins,
            checkpoint=job.checkpoint,
            tell=lambda told: pipe.send((told["round"], told["accuracy"])),
        )
        pipe.send(record)
