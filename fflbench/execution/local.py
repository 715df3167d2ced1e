"""Cells on the cores of one machine: as many processes as asked for, one cell at a time each.

The driver alone writes records. A worker that raises sends a failed record; one that dies is replaced, and its cell
counts as failed. Workers end with their driver, however that ends.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fflbench.execution.cell import play, record_of
from fflbench.records.record import Record
from fflbench.suites.plan import Cell


@dataclass(frozen=True)
class Job:
    """A cell and where it may keep its state."""

    cell: Cell
    checkpoint: Path


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


def execute(
    jobs: Sequence[Job], suite: str, *, workers: int, device: str, plugins: Sequence[str]
) -> Generator[Progress | Finished, None, None]:
    """Run all jobs; yields what happens, as it happens. Closing this generator stops everything at once."""
    waiting = deque(jobs)
    methods = multiprocessing.get_all_start_methods()
    # A fork server imports torch once; a fork of this process could inherit a lock that somebody holds.
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["fflbench.federation.rounds"])
    team: list[_Worker] = []
    try:
        for number in range(min(workers, len(jobs))):
            team.append(_Worker(number, suite, device, plugins))
            _start(context, team[-1])
            _give(team[-1], waiting)
        while any(worker.job for worker in team):
            by_handle = {handle: worker for worker in team for handle in (worker.pipe, worker.process.sentinel)}
            for worker in {id(found): found for found in map(by_handle.__getitem__, wait(list(by_handle)))}.values():
                for message in _messages(worker):
                    yield message
                    if isinstance(message, Finished):
                        worker.job = None
                        if waiting and not worker.process.is_alive():
                            worker.pipe.close()
                            _start(context, worker)
                        _give(worker, waiting)
    finally:
        for worker in team:
            if worker.process:
                worker.process.kill()
                worker.process.join()
                worker.pipe.close()


def _start(context: Any, worker: _Worker) -> None:
    worker.pipe, theirs = context.Pipe()
    arguments = theirs, worker.suite, worker.device, tuple(worker.plugins), dict(os.environ)
    worker.process = context.Process(target=_work, args=arguments, daemon=True)
    with _without_main():
        worker.process.start()
    theirs.close()


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


def _give(worker: _Worker, waiting: deque[Job]) -> None:
    if waiting:
        worker.job = waiting.popleft()
        worker.pipe.send(worker.job)


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
        failed = record_of(job.cell, worker.suite, worker.device, status="failed", error=f"the worker died: {how}")
        yield Finished(job.cell, worker.number, failed)


def _work(pipe: Connection, suite: str, device: str, plugins: Sequence[str], environment: dict[str, str]) -> None:
    """What a worker does: take a cell, play it, send its record, take the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    from fflbench import registry

    registry.load_named(plugins)
    jobs: deque[Job] = deque()
    there_is_one = threading.Semaphore(0)

    def listen() -> None:
        try:
            while True:
                jobs.append(pipe.recv())
                there_is_one.release()
        except (EOFError, OSError):
            # The driver is gone: nobody is left to write a record.
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        there_is_one.acquire()
        job = jobs.popleft()
        record = play(
            job.cell,
            suite,
            device=device,
            checkpoint=job.checkpoint,
            tell=lambda told: pipe.send((told["round"], told["accuracy"])),
        )
        pipe.send(record)
