"""Status of a run, kept on disk for `fflbench status` and shown by displays and `--log-json`.

The driver replaces its file, beside the records, atomically. Times are those of a monotonic clock.
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
from fflbench.execution.units import duration
from fflbench.reading import parse_json, read_bytes
from fflbench.records.store import write_whole

FILE = ".run"
WRITE_SECONDS = 1.0
"""Least seconds between two writes for rounds alone."""

LARGEST = 2**26
"""Most bytes of a status file, enough for a hundred thousand failed cells."""

Count = Annotated[int, Ge(0), Le(10**12)]
Seconds = Annotated[float, Ge(0), AllowInfNan(False)]


class Running(BaseModel):
    """Running cell."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    name: str
    where: str
    round: Count = 0
    rounds: Count
    accuracy: float | None = None


class Failed(BaseModel):
    """Failed cell."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    name: str
    reason: str
    command: str


class RunStatus(BaseModel):
    """Status of a run at one moment."""

    model_config = ConfigDict(extra="forbid")

    suite: str
    command: str
    """Command line of the run."""
    host: str
    process: Count
    state: Literal["starting", "running", "stopping", "stopped", "finished", "lost"] = "starting"
    """State of the run; "lost", which only readers conclude, means that it ended without a final status."""
    cells: Count
    """Cells of the whole suite."""
    before: Count
    """Cells done by earlier runs."""
    done: Count = 0
    """Cells done by this run."""
    failed: list[Failed] = []
    running: list[Running] = []
    seconds: Seconds = 0.0
    """Seconds since the run began."""
    left: Seconds | None = None
    """Estimated seconds until the end."""

    @property
    def waiting(self) -> int:
        """Cells that have not started yet."""
        return self.cells - self.before - self.done - len(self.failed) - len(self.running)

    @property
    def per_minute(self) -> float:
        """Cells that end per minute."""
        return 60 * (self.done + len(self.failed)) / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        parts = [f"{len(self.running)} running"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"{self.per_minute:.1f} a minute"] if self.done or self.failed else []
        parts += [f"{duration(self.left)} left"] if self.left else []
        return ", ".join(parts)


class Watch:
    """Tracker of a run's status by its events."""

    def __init__(
        self,
        suite: str,
        command: str,
        cells: int,
        rounds: Mapping[str, int],
        file: Path | None,
    ) -> None:
        self.file, self.rounds = file, rounds
        """Status file, if there is one, and the rounds of the cells to run."""
        self.last_run = file.read_bytes() if file and file.is_file() and file.stat().st_size <= LARGEST else None
        self.expect(dict.fromkeys(rounds, 1.0))
        self.over = 0.0
        """Expected seconds of the cells that have ended."""
        self.before: dict[str, float] = {}
        """Expected seconds of the rounds before the checkpoint from which a cell resumed, by cell."""
        self.now = RunStatus(
            suite=suite,
            command=command,
            host=platform.node(),
            process=os.getpid(),
            cells=cells,
            before=cells - len(rounds),
        )
        self.write()

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Set the expected seconds of cells, and start to count time."""
        self.expected, self.total = seconds, sum(seconds.values()) or 1.0
        self.begun = time.monotonic()

    def hear(self, event: Event | None) -> RunStatus:
        """Update the status by an event and return it."""
        now = self.now
        if begins := now.state == "starting":
            now.state = "running"
        under_way = {each.cell: each for each in now.running}
        if isinstance(event, Started):
            running = Running(
                cell=event.cell.id, name=str(event.cell), where=event.where, rounds=self.rounds[event.cell.id]
            )
            now.running.append(running)
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
        """Set the final status; a run that never began restores the status of the last one."""
        if self.now.state == "starting":
            self._put_back()
            return
        self.now.state, self.now.running, self.now.left = state, [], None
        self.write()

    def write(self) -> None:
        """Write the status file; the run continues if that fails."""
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


def read(folder: Path) -> RunStatus | None:
    """Return the last written status of the run in a folder, or None."""
    file = folder / FILE
    try:
        return RunStatus.model_validate(parse_json(read_bytes(file, LARGEST)))
    except RecordError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as error:
        raise RecordError(f"{file} is damaged; the next run in that folder makes it anew") from error
