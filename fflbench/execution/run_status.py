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
from fflbench.execution.durations_and_sizes import format_duration
from fflbench.execution.jobs_and_events import Event, Finished, Interrupted, Progress, Started
from fflbench.records.store import write_atomically
from fflbench.untrusted_files import parse_json, read_bytes

FILE = ".run"
WRITE_SECONDS = 1.0
"""Least seconds between two writes for rounds alone."""

LARGEST = 2**26
"""Most bytes of a status file, enough for a hundred thousand failed cells."""

Count = Annotated[int, Ge(0), Le(10**12)]
Seconds = Annotated[float, Ge(0), AllowInfNan(False)]


class RunningCell(BaseModel):
    """Running cell."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    name: str
    where: str
    round: Count = 0
    rounds: Count
    accuracy: float | None = None


class FailedCell(BaseModel):
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
    failed: list[FailedCell] = []
    running: list[RunningCell] = []
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

    @property
    def counts_text(self) -> str:
        """Running and failed cells, as displays show them."""
        return f"{len(self.running)} running" + (f", {len(self.failed)} failed" if self.failed else "")

    @property
    def pace_text(self) -> str:
        """Cells per minute, once one has ended."""
        return f"{self.per_minute:.1f} per minute" if self.done or self.failed else ""

    @property
    def left_text(self) -> str:
        """Time left, once it can be estimated."""
        return f"{format_duration(self.left)} left" if self.left else ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.counts_text, self.pace_text, self.left_text)))


class StatusTracker:
    """Status of a run, updated by its events and written to its file."""

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
        self.ended_seconds = 0.0
        """Expected seconds of the cells that have ended."""
        self.skipped_seconds: dict[str, float] = {}
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
        self.start = time.monotonic()

    def update(self, event: Event | None) -> RunStatus:
        """Update the status by an event and return it."""
        now = self.now
        if first := now.state == "starting":
            now.state = "running"
        under_way = {each.cell: each for each in now.running}
        if isinstance(event, Started):
            running = RunningCell(
                cell=event.cell.id, name=str(event.cell), where=event.where, rounds=self.rounds[event.cell.id]
            )
            now.running.append(running)
        elif isinstance(event, Progress) and event.cell.id in under_way:
            each = under_way[event.cell.id]
            if not each.round:
                self.skipped_seconds[each.cell] = self.expected[each.cell] * (event.round - 1) / max(1, each.rounds)
            each.round, each.accuracy = event.round, event.accuracy
        elif isinstance(event, Finished | Interrupted):
            now.running = [each for each in now.running if each.cell != event.cell.id]
        if isinstance(event, Finished):
            self.ended_seconds += self.expected[event.cell.id]
            if event.record.status == "done":
                now.done += 1
            else:
                now.failed.append(self._failed_cell_of(event))
        now.seconds = time.monotonic() - self.start
        now.left = self._estimate_seconds_left()
        if first or isinstance(event, Finished | Interrupted) or now.seconds - self.written >= WRITE_SECONDS:
            self.write()
        return now

    def end(self, state: Literal["stopped", "finished"]) -> None:
        """Set the final status; a run that never began restores the status of the last one."""
        if self.now.state == "starting":
            self._restore_last_run_status()
            return
        self.now.state, self.now.running, self.now.left = state, [], None
        self.write()

    def write(self) -> None:
        """Write the status file; the run continues if that fails."""
        self.written = self.now.seconds
        if self.file:
            with suppress(OSError):
                write_atomically(self.file, json.dumps(self.now.model_dump(), indent=1).encode(), durable=False)

    def _restore_last_run_status(self) -> None:
        if self.file:
            with suppress(OSError):
                if self.last_run is None:
                    self.file.unlink()
                else:
                    write_atomically(self.file, self.last_run, durable=False)

    def _failed_cell_of(self, event: Finished) -> FailedCell:
        record = event.record
        return FailedCell(cell=record.id, name=str(record), reason=record.reason, command=record.facts["run_alone"])

    def _estimate_seconds_left(self) -> float | None:
        under_way = sum(self.expected[each.cell] * each.round / max(1, each.rounds) for each in self.now.running)
        before = sum(self.skipped_seconds.values())
        done, total = self.ended_seconds + under_way - before, self.total - before
        return max(0.0, self.now.seconds * (total - done) / done) if done > 0 else None


def read_run_status(folder: Path) -> RunStatus | None:
    """Return the last written status of the run in a folder, or None."""
    file = folder / FILE
    try:
        return RunStatus.model_validate(parse_json(read_bytes(file, LARGEST)))
    except RecordError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as error:
        raise RecordError(f"{file} is damaged; the next run in that folder replaces it") from error
