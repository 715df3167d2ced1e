"""Contract of executors: jobs, the settings of a run, and events.

An executor takes jobs and settings and yields events as they happen, and None at least once a second, so that its
caller can check the time. A stranger's executor is a function of that form with the decorator `executor`:

    @executor("in-process", title="In this process")
    def in_process(jobs, settings):
        for job in jobs:
            if not settings.stopping.is_set():
                yield Started(job.cell, "this process")
                yield Finished(job.cell, run_cell(job.cell, settings.suite, plugins=settings.plugins))
"""

import math
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fflbench.execution.durations_and_sizes import format_bytes
from fflbench.execution.run_cell import make_record
from fflbench.records.record import Record
from fflbench.records.store import Store
from fflbench.suites.cell import Cell

TICK = 0.5
"""Seconds that an executor waits for an event before it yields None."""

KILLED_FOR_MEMORY = "the worker was killed because memory ran out; fewer --workers leave more memory to each"


@dataclass(frozen=True)
class Job:
    """Cell to run, with the resources that it needs."""

    cell: Cell
    memory: int = 0
    """Estimated bytes of memory."""
    alone: bool = False
    """Whether no other job may run at the same time."""
    cpus: float = 1
    gpus: float = 0


@dataclass(frozen=True)
class RunSettings:
    """Settings that all jobs of a run share."""

    suite: str
    store: Store
    """Store of its records and checkpoints."""
    device: str = "cpu"
    plugins: tuple[str, ...] = ()
    timeout: float = math.inf
    """Most seconds that a cell may take."""
    workers: int | None = None
    """Most cells that run at the same time; None leaves it to the executor."""
    memory_limit: float | None = None
    """Most bytes that cells may take together on this machine; None for all that it has."""
    address: str | None = None
    """Address of the cluster, if the executor uses one."""
    retries: int = 3
    """Retries of a cell that was lost with its node."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the run is asked to stop: no cell starts, and running cells save their state after the current round."""


@dataclass(frozen=True)
class Started:
    """Start of a cell."""

    cell: Cell
    where: str


@dataclass(frozen=True)
class Progress:
    """End of a cell's round."""

    cell: Cell
    round: int
    accuracy: float | None


@dataclass(frozen=True)
class Finished:
    """End of a cell, done or failed."""

    cell: Cell
    record: Record
    resumes: bool = False
    """Whether the next run resumes from its checkpoint, since the error was not in the cell itself."""
    ran: bool = True
    """Whether it ran at all."""


@dataclass(frozen=True)
class Interrupted:
    """End of a cell's attempt without a result: it was stopped, or its worker or node is gone."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Note:
    """Message for the user."""

    text: str


Event = Started | Progress | Finished | Interrupted | Note
Events = Generator[Event | None, None, None]


class Executor(Protocol):
    """Function that runs jobs; registered with the decorator `executor` and chosen with `--executor`."""

    def __call__(self, jobs: Sequence[Job], settings: RunSettings) -> Events:
        """Run all jobs and yield their events; closing this generator stops everything at once.

        Start no job once `settings.stopping` is set, and end when no job is running.
        """


@dataclass(frozen=True)
class Stopped:
    """Answer of a worker that has stopped its cell on request."""

    saved: bool
    """Whether the state of the cell was saved."""

    def __str__(self) -> str:
        return "stopped; its state is saved" if self.saved else "stopped; its state could not be saved"


@dataclass(frozen=True)
class CannotRun:
    """Answer of a worker that cannot run a cell."""

    reason: str
    missing: str = ""
    """Part of the cell that is missing there, such as "data mnist"; empty if the worker can run no cell at all."""


def failed_cell_event(job: Job, settings: RunSettings, error: str, *, ran: bool = True) -> Finished:
    """Return the end of a cell by an error outside its own code."""
    record = make_record(job.cell, settings.suite, settings.device, settings.plugins, status="failed", error=error)
    return Finished(job.cell, record, resumes=True, ran=ran)


def memory_exceeded_event(job: Job, settings: RunSettings, limit: float) -> Finished:
    """Return the failure of a cell that needs more memory than this machine has."""
    needs, has = format_bytes(job.memory), format_bytes(limit)
    error = f"needs more memory than there is: about {needs}, and the limit (--memory-limit) is {has}"
    return failed_cell_event(job, settings, error, ran=False)


def timeout_event(job: Job, settings: RunSettings) -> Finished:
    """Return the failure of a cell that exceeded the time limit."""
    return failed_cell_event(job, settings, f"took longer than {settings.timeout:g} s (--cell-timeout)")
