"""What is to be done and what happens meanwhile, in the words that every executor uses.

An executor takes jobs and terms and yields events as they happen, and None at least once a second, so that whoever
listens can look at the clock. It starts nothing new once `terms.stopping` is set, and ends when nothing is under way.
"""

import math
import threading
from collections.abc import Generator
from dataclasses import dataclass, field

from fflbench.execution.cell import record_of
from fflbench.records.record import Record
from fflbench.records.store import Store
from fflbench.suites.cell import Cell
from fflbench.units import readable_bytes

TICK = 0.5
"""Seconds an executor waits for news before it says that there are none."""

LOST_FOR_MEMORY = "memory ran out, and the worker was killed for it; fewer --workers leave more to each"


@dataclass(frozen=True)
class Job:
    """A cell, and what it asks of a machine."""

    cell: Cell
    memory: int = 0
    """Bytes it takes, about."""
    alone: bool = False
    """Whether nothing may run beside it."""
    cpus: float = 1
    gpus: float = 0


@dataclass(frozen=True)
class Terms:
    """What holds for all jobs of a run."""

    suite: str
    store: Store
    """Where checkpoints are."""
    device: str = "cpu"
    plugins: tuple[str, ...] = ()
    timeout: float = math.inf
    """Seconds a cell may take."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set once nothing new is to start; cells under way then keep their state after the round they are in."""


@dataclass(frozen=True)
class Started:
    """A cell is under way."""

    cell: Cell
    where: str


@dataclass(frozen=True)
class Progress:
    """A cell has played a round."""

    cell: Cell
    round: int
    accuracy: float | None


@dataclass(frozen=True)
class Finished:
    """A cell has ended, well or not."""

    cell: Cell
    record: Record
    resumes: bool = False
    """Whether the next run goes on from its checkpoint: nothing in the cell itself went wrong."""
    ran: bool = True
    """Whether it was played at all."""


@dataclass(frozen=True)
class Returned:
    """A cell is no longer under way and has not ended: it was stopped, or what it ran on is gone."""

    cell: Cell
    why: str


@dataclass(frozen=True)
class Stopped:
    """A worker's word that it has stopped a cell as it was asked to."""

    kept: bool
    """Whether its state is."""

    def __str__(self) -> str:
        return "stopped, and its state is kept" if self.kept else "stopped; its state could not be kept"


@dataclass(frozen=True)
class Unfit:
    """A worker's word that it cannot play a cell."""

    why: str
    about: str = ""
    """The part of the cell that it cannot have, such as "data mnist"; nothing where it can play none at all."""


@dataclass(frozen=True)
class Note:
    """Something that whoever watches ought to know."""

    text: str


Event = Started | Progress | Finished | Returned | Note
Events = Generator[Event | None, None, None]


def failed(job: Job, terms: Terms, error: str, *, ran: bool = True) -> Finished:
    """A cell's end by something that did not happen in its own code."""
    record = record_of(job.cell, terms.suite, terms.device, terms.plugins, status="failed", error=error)
    return Finished(job.cell, record, resumes=True, ran=ran)


def too_large(job: Job, terms: Terms, limit: float) -> Finished:
    """A cell that this machine cannot hold."""
    needs, has = readable_bytes(job.memory), readable_bytes(limit)
    told = f"needs more memory than there is: about {needs}, and the limit (--memory-limit) is {has}"
    return failed(job, terms, told, ran=False)


def too_long(job: Job, terms: Terms) -> Finished:
    """A cell that was given up."""
    return failed(job, terms, f"took longer than {terms.timeout:g} s (--cell-timeout)")
