"""Where a run stands: what displays show, what `fflbench status` reads, what `--log-json` tells.

The driver keeps it in a file beside the records, whole at any moment. Times are counted on a clock that nobody sets.
"""

import json
import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import AllowInfNan, BaseModel, ConfigDict

from fflbench.errors import RecordError
from fflbench.execution.jobs import Event, Finished, Progress, Returned, Started
from fflbench.reading import parse_json, read_bytes
from fflbench.records.store import write_whole
from fflbench.units import duration

FILE = ".run"
WRITE_SECONDS = 1.0
"""How often rounds alone are worth writing down."""

LARGEST = 2**26
"""Bytes that a status file may have: a hundred thousand failed cells fit in."""

Count = Annotated[int, Ge(0), Le(10**12)]
Seconds = Annotated[float, Ge(0), AllowInfNan(False)]


class Running(BaseModel):
    """A cell that is under way."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    name: str
    where: str
    round: Count = 0
    rounds: Count
    accuracy: float | None = None


class Failed(BaseModel):
    """A cell that failed."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    name: str
    reason: str
    command: str


class Standing(BaseModel):
    """All that is to be said of a run at one moment."""

    model_config = ConfigDict(extra="forbid")

    suite: str
    command: str
    """What started it."""
    host: str
    process: Count
    state: Literal["starting", "running", "stopping", "stopped", "finished", "lost"] = "starting"
    """The last is for others to say: that a run ended without a word."""
    cells: Count
    """Of the whole suite."""
    before: Count
    """Done by earlier runs."""
    done: Count = 0
    """By this one, well."""
    failed: list[Failed] = []
    running: list[Running] = []
    seconds: Seconds = 0.0
    """Since it began."""
    left: Seconds | None = None
    """Seconds it will still take, as it looks now."""

    @property
    def waiting(self) -> int:
        """Cells that nobody has taken yet."""
        return self.cells - self.before - self.done - len(self.failed) - len(self.running)

    @property
    def per_minute(self) -> float:
        """Cells that end in a minute."""
        return 60 * (self.done + len(self.failed)) / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        told = [f"{len(self.running)} running"]
        told += [f"{len(self.failed)} failed"] if self.failed else []
        told += [f"{self.per_minute:.1f} a minute"] if self.done or self.failed else []
        told += [f"{duration(self.left)} left"] if self.left else []
        return ", ".join(told)


class Watch:
    """Follows a run's events and knows where it stands."""

    def __init__(
        self,
        suite: str,
        command: str,
        cells: int,
        rounds: Mapping[str, int],
        file: Path | None,
    ) -> None:
        self.file, self.rounds = file, rounds
        """Where others look, if they are to know; and the rounds of the cells that are to run."""
        self.last_run = file.read_bytes() if file and file.is_file() and file.stat().st_size <= LARGEST else None
        self.expect(dict.fromkeys(rounds, 1.0))
        self.over = 0.0
        """What has ended, in seconds that were expected of it."""
        self.before: dict[str, float] = {}
        """The same of what cells had behind them when they began, from their checkpoints."""
        self.now = Standing(
            suite=suite,
            command=command,
            host=platform.node(),
            process=os.getpid(),
            cells=cells,
            before=cells - len(rounds),
        )
        self.write()

    def expect(self, seconds: Mapping[str, float]) -> None:
        """What cells will take, about; what they do take is counted from here on."""
        self.expected, self.total = seconds, sum(seconds.values()) or 1.0
        self.begun = time.monotonic()

    def hear(self, event: Event | None) -> Standing:
        """What has changed; returns where the run stands."""
        now = self.now
        if begins := now.state == "starting":
            now.state = "running"
        under_way = {each.cell: each for each in now.running}
        if isinstance(event, Started):
            told = Running(
                cell=event.cell.id, name=str(event.cell), where=event.where, rounds=self.rounds[event.cell.id]
            )
            now.running.append(told)
        elif isinstance(event, Progress) and event.cell.id in under_way:
            each = under_way[event.cell.id]
            if not each.round:
                self.before[each.cell] = self.expected[each.cell] * (event.round - 1) / max(1, each.rounds)
            each.round, each.accuracy = event.round, event.accuracy
        elif isinstance(event, Finished | Returned):
            now.running = [each for each in now.running if each.cell != event.cell.id]
        if isinstance(event, Finished):
            self.over += self.expected[event.cell.id]
            if event.record.status == "done":
                now.done += 1
            else:
                now.failed.append(self._failure(event))
        now.seconds = time.monotonic() - self.begun
        now.left = self._left()
        if begins or isinstance(event, Finished | Returned) or now.seconds - self.written >= WRITE_SECONDS:
            self.write()
        return now

    def end(self, state: Literal["stopped", "finished"]) -> None:
        """The run is over, with or without the rest; one that never began leaves the word to the last one."""
        if self.now.state == "starting":
            self._put_back()
            return
        self.now.state, self.now.running, self.now.left = state, [], None
        self.write()

    def write(self) -> None:
        """Let others know; where that is not possible the run goes on."""
        self.written = self.now.seconds
        if self.file:
            with suppress(OSError):
                write_whole(self.file, json.dumps(self.now.model_dump(), indent=1).encode(), lasting=False)

    def _put_back(self) -> None:
        if self.file:
            with suppress(OSError):
                if self.last_run is None:
                    self.file.unlink()
                else:
                    write_whole(self.file, self.last_run, lasting=False)

    def _failure(self, event: Finished) -> Failed:
        record = event.record
        return Failed(cell=record.id, name=str(record), reason=record.reason, command=record.facts["run_alone"])

    def _left(self) -> float | None:
        under_way = sum(self.expected[each.cell] * each.round / max(1, each.rounds) for each in self.now.running)
        before = sum(self.before.values())
        done, total = self.over + under_way - before, self.total - before
        return max(0.0, self.now.seconds * (total - done) / done) if done > 0 else None


def read(folder: Path) -> Standing | None:
    """Where the run in a folder stands, or stood when it was last heard of."""
    file = folder / FILE
    try:
        return Standing.model_validate(parse_json(read_bytes(file, LARGEST)))
    except RecordError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as error:
        raise RecordError(f"{file} is damaged; the next run in that folder makes it anew") from error
