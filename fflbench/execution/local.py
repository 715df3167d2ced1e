"""Cells on the cores of one machine: as many processes as asked for, one cell at a time each.

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

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a batch system's word, a terminal that went away: ends of a run that are for the driver to handle."""

STOP = "stop"
"""What a worker is told."""

TELL_SECONDS = 0.1
"""How often a worker tells of its rounds."""


class DiedError(Exception):
    """A process that was asked something died of it, or took too long."""


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
        """Stop at once."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    @property
    def overdue(self) -> bool:
        """Whether its cell has had its time."""
        return time.monotonic() - self.since > self.terms.timeout

    def say(self, message: object) -> None:
        """Send something; a worker that died just now is found out by its sentinel."""
        with suppress(OSError):
            self.pipe.send(message)


def execute(jobs: Sequence[Job], terms: Terms, *, workers: int, memory_limit: float = math.inf) -> Events:
    """Run all jobs; yields what happens, as it happens. Closing this generator stops everything at once.

    Jobs run side by side as far as they fit into memory together; one that is larger than the limit fails at once.
    """
    for job in (job for job in jobs if job.memory > memory_limit):
        yield too_large(job, terms, memory_limit)
    waiting = [job for job in jobs if job.memory <= memory_limit]
    team = [_Worker(number, terms) for number in range(1, 1 + min(workers, len(waiting)))]
    if not waiting:
        return
    context, told = warm_up(), False
    try:
        while True:
            if terms.stopping.is_set():
                waiting.clear()
            for worker in _hand_out(context, team, waiting, memory_limit):
                yield Started(worker.job.cell, f"worker {worker.number}")
            busy = [worker for worker in team if worker.job]
            if not busy:
                return
            if terms.stopping.is_set() and not told:
                told = True
                for worker in busy:
                    worker.say(STOP)
            by_handle = {handle: worker for worker in busy for handle in (worker.pipe, worker.process.sentinel)}
            ready = {by_handle[handle].number: by_handle[handle] for handle in wait(list(by_handle), TICK)}
            for worker in ready.values():
                yield from _news(worker)
            for worker in team:
                if worker.job and worker.overdue:
                    worker.end()
                    yield from _over(worker, too_long(worker.job, terms))
            yield None
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
    # The server inherits that Ctrl-C and the like are blocked: to whom they are sent besides, the driver decides what
    # becomes of them. For us they only wait until the server is under way. The tracker that the server starts along the
    # way unblocks them again, so it has to be there before.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        with _without_main():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return context


def ask(function: Callable[..., R], *arguments: Any, plugins: Sequence[str] = (), timeout: float = math.inf) -> R:
    """What a function answers in a process of its own, where torch is already imported; its errors are raised here."""
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
        while isinstance(said := _received(pipe, end), Note):
            warnings.warn(said.text, stacklevel=2)
    except (EOFError, OSError):
        raise DiedError from None
    finally:
        process.kill()
        process.join()
        pipe.close()
    if isinstance(said, FflbenchError):
        raise said
    answer: R = said
    return answer


def _received(pipe: Connection, end: float) -> Any:
    """What a process says before the clock shows so much."""
    # What cannot be waited for at once, as for ever, is waited for in turns.
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
    failures = _begin(pipe, plugins, environment)
    _listen(pipe, lambda _: None)
    try:
        said = SuiteError(failures) if failures else function(*arguments)
    except FflbenchError as error:
        said = error
    except (Exception, SystemExit) as error:
        # Strangers' code may raise what no other process can read.
        said = FflbenchError(in_a_line(error))
    pipe.send(said)


def _listen(pipe: Connection, hear: Callable[[Any], None]) -> None:
    """Hear what the driver says, and end with it: once it is gone, nobody is left to write a record."""

    def listen() -> None:
        try:
            while True:
                hear(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def _begin(pipe: Connection, plugins: Sequence[str], environment: dict[str, str]) -> str:
    """What every process of ours does first; returns what is wrong with plugins, if anything."""
    for number in HEARD:
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(environment)
    # The driver shows warnings, wherever they come from.
    warnings.showwarning = lambda message, *_, **__: pipe.send(Note(str(message)))
    from fflbench import registry

    return "; ".join(map(str, registry.load_named(plugins)))


def _hand_out(context: Any, team: Sequence[_Worker], waiting: list[Job], memory_limit: float) -> Iterator[Any]:
    """Give every idle worker the first job that may run beside those that are running; yields who got one."""
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
    """Hand a job to a worker, a new process if the old one is gone."""
    if worker.process is None or not worker.process.is_alive():
        worker.end()
        pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *_portable(worker.terms)), daemon=True)
        with _without_main():
            process.start()
        theirs.close()
        worker.process, worker.pipe = process, pipe
    worker.job, worker.since, worker.killed_before = job, time.monotonic(), killed_for_memory()
    worker.say((job.cell, worker.terms.store.checkpoint(job.cell.id)))


def _portable(terms: Terms) -> tuple[str, str, tuple[str, ...], dict[str, str]]:
    """What of the terms goes to another process."""
    return terms.suite, terms.device, terms.plugins, dict(os.environ)


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


def _news(worker: _Worker) -> Iterator[Event]:
    """What a worker has to say; the last word of a dead one is that its cell failed."""
    job = worker.job
    assert job is not None
    try:
        while worker.pipe.poll():
            said = worker.pipe.recv()
            if isinstance(said, Record):
                yield from _over(worker, Finished(job.cell, said))
                return
            if isinstance(said, Stopped):
                yield from _over(worker, Returned(job.cell, str(said)))
                return
            if isinstance(said, Unfit):
                yield from _over(worker, failed(job, worker.terms, said.why, ran=False))
                return
            yield said if isinstance(said, Note) else Progress(job.cell, *said)
    except (EOFError, OSError):
        pass
    if not worker.process.is_alive():
        code = worker.process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        for_memory = code == -signal.SIGKILL and killed_for_memory() > worker.killed_before
        yield from _over(
            worker, failed(job, worker.terms, LOST_FOR_MEMORY if for_memory else f"the worker died: {how}")
        )


def _over(worker: _Worker, event: Event) -> Iterator[Event]:
    """A worker's cell is over: it is free before anybody hears of it."""
    worker.job = None
    yield event


def _work(pipe: Connection, suite: str, device: str, plugins: Sequence[str], environment: dict[str, str]) -> None:
    """What a worker does: take a cell, play it, send its record, take the next."""
    _die_first()
    failures = _begin(pipe, plugins, environment)
    given: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stopping = threading.Event()

    _listen(pipe, lambda heard: stopping.set() if heard == STOP else given.put(heard))
    while True:
        cell, checkpoint = given.get()
        if failures:
            # They could be loaded when the run began.
            pipe.send(Unfit(failures))
            continue
        try:
            said: object = play(
                cell,
                suite,
                device=device,
                plugins=plugins,
                checkpoint=File(checkpoint),
                report=_now_and_then(pipe),
                stopping=stopping.is_set,
            )
        except StoppedError as stopped:
            said = Stopped(stopped.kept)
        pipe.send(said)


def _now_and_then(pipe: Connection) -> Any:
    """Reports steps, but not every one where they are fast."""
    last = -math.inf

    def report(step: int, accuracy: float | None) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_SECONDS:
            last = time.monotonic()
            pipe.send((step, accuracy))

    return report


def _die_first() -> None:
    """Let the kernel, should memory run out, take a worker rather than the driver or somebody else's work."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
