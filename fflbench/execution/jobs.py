"""Jobs and events that all executors share.

An executor takes jobs and terms and yields events as they happen, and None at least once a second, so that its caller
can check the time. It starts no job once `terms.stopping` is set, and ends when no job is running.
"""

import math
import threading
from collections.abc import Generator
from dataclasses import dataclass, field

from fflbench.execution.cell import record_of
from fflbench.execution.units import readable_bytes
from fflbench.records.record import Record
from fflbench.records.store import Store
from fflbench.suites.cell import Cell

TICK = 0.5
"""Seconds that an executor waits for an event before it yields None."""

LOST_FOR_MEMORY = "memory ran out, and the worker was killed for it; fewer --workers leave more to each"


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
class Terms:
    """Settings that all jobs of a run share."""

    suite: str
    store: Store
    """Store of its records and checkpoints."""
    device: str = "cpu"
    plugins: tuple[str, ...] = ()
    timeout: float = math.inf
    """Most seconds that a cell may take."""
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
class Returned:
    """Return of an unfinished cell: it was stopped, or its worker or node is gone."""

    cell: Cell
    why: str


@dataclass(frozen=True)
class Stopped:
    """Answer of a worker that has stopped its cell on request."""

    kept: bool
    """Whether the state of the cell was saved."""

    def __str__(self) -> str:
        return "stopped, and its state is kept" if self.kept else "stopped; its state could not be kept"


@dataclass(frozen=True)
class Unfit:
    """Answer of a worker that cannot run a cell."""

    why: str
    about: str = ""
    """Part of the cell that is missing there, such as "data mnist"; empty if the worker can run no cell at all."""


@dataclass(frozen=True)
class Note:
    """Message for the user."""

    text: str


Event = Started | Progress | Finished | Returned | Note
Events = Generator[Event | None, None, None]


def failed(job: Job, terms: Terms, error: str, *, ran: bool = True) -> Finished:
    """Return the end of a cell by an error outside its own code."""
    record = record_of(job.cell, terms.suite, terms.device, terms.plugins, status="failed", error=error)
    return Finished(job.cell, record, resumes=True, ran=ran)


def too_large(job: Job, terms: Terms, limit: float) -> Finished:
    """Return the failure of a cell that needs more memory than this machine has."""
    needs, has = readable_bytes(job.memory), readable_bytes(limit)
    error = f"needs more memory than there is: about {needs}, and the limit (--memory-limit) is {has}"
    return failed(job, terms, error, ran=False)


def too_long(job: Job, terms: Terms) -> Finished:
    """Return the failure of a cell that exceeded the time limit."""
    return failed(job, terms, f"took longer than {terms.timeout:g} s (--cell-timeout)")
