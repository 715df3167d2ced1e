"""Run of a cell on a node of a Ray cluster, with its reports to the driver."""

import functools
import math
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fflbench import __version__, registry
from fflbench.data.prepared import is_here
from fflbench.data.sources import ENVIRONMENT
from fflbench.errors import FflbenchError
from fflbench.execution.cell import StoppedError
from fflbench.execution.cell import play as play_cell
from fflbench.execution.jobs import Stopped, Unfit
from fflbench.federation import Transport
from fflbench.records import parts
from fflbench.records.manifest import RESULTS_VERSION, commit
from fflbench.records.parts import ConfiguredPart
from fflbench.records.record import Record
from fflbench.suites.cell import Cell

OWN_DATA = os.environ.get(ENVIRONMENT, "")
"""Folder of this node's data, where the driver's folder has none."""
REPORT_SECONDS = 1.0
"""Least seconds between two reports of a cell's rounds."""
ANSWER_SECONDS = 1.0
"""Most seconds that it waits for the answer whether to stop."""


@dataclass(frozen=True)
class Baggage:
    """Settings of the run that are sent with every cell."""

    suite: str
    device: str
    plugins: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    """Plugins that are files, with their text."""
    data: str
    """Folder of the driver's data."""
    version: str
    commit: str


class Desk:
    """Actor that collects the reports of cells and answers whether to stop; cells and driver both reach it."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, str, Any]] = []
        self.stopping = False

    def put(self, cell: str, attempt: int, kind: str, content: Any) -> bool:
        """Add a report of a cell; return whether the cell is to stop."""
        self.reports.append((cell, attempt, kind, content))
        return self.stopping

    def read(self) -> list[tuple[str, int, str, Any]]:
        """Return all reports since the last call."""
        reports, self.reports = self.reports, []
        return reports

    def stop(self) -> None:
        """Answer from now on that cells are to stop."""
        self.stopping = True


def play(
    cell: Cell, versions: Mapping[str, int | str], attempt: int, baggage: Baggage, kept: bytes | None, desk: Any
) -> Record | Unfit | Stopped:
    """Run a cell, or return the reason why this node cannot."""
    import ray

    with _Connection(cell.id, attempt, desk, kept) as connection, warnings.catch_warnings():
        warnings.showwarning = connection.note
        if connection.put("started", ray.get_runtime_context().get_node_id()).result():
            return Stopped(kept is not None)
        if unfit := _unfit(cell, versions, baggage):
            return unfit
        try:
            return play_cell(
                cell,
                baggage.suite,
                device=baggage.device,
                plugins=baggage.plugins,
                checkpoint=connection,
                report=connection.report,
                stopping=connection.stopping,
            )
        except StoppedError as stopped:
            return Stopped(stopped.kept)


def _name(part: ConfiguredPart) -> str:
    """Return the name of a part of a cell that nodes and driver use."""
    return f"{part.kind} {part.name}"


def data_of(cell: Cell) -> str:
    """Return the name of the data set that a cell needs, or an empty text."""
    return f"data {cell.data_set.name}" if cell.data_set else ""


def parts_of(cell: Cell) -> set[str]:
    """Return the names of all parts that a node must have, and the empty name that stands for all cells."""
    return {"", data_of(cell), *map(_name, parts.parts_of(cell.configuration))}


def _unfit(cell: Cell, versions: Mapping[str, int | str], baggage: Baggage) -> Unfit | None:
    """Return the reason why this node cannot run a cell as the driver's machine would, or None."""
    theirs, ours = f"{baggage.version} {baggage.commit[:8]}", f"{__version__} {commit()[:8]}"
    if baggage.version != __version__ or (commit() and baggage.commit and commit() != baggage.commit):
        return Unfit(f"it has fflbench {ours.strip()}, and the run is of {theirs.strip()}; install the same")
    if versions["core"] != RESULTS_VERSION:
        return Unfit(f"its fflbench is of results version {RESULTS_VERSION}, and the run's of {versions['core']}")
    if failure := _load(baggage.plugins, baggage.sources):
        return Unfit(failure)
    for part in parts.parts_of(cell.configuration):
        name = _name(part)
        try:
            entry = registry.get(part.kind, part.name)
            created, version = entry.create(**part.parameters), entry.results_version
        except FflbenchError as error:
            return Unfit(str(error), name)
        if version != versions[part.key]:
            return Unfit(f"its {name} is of results version {version}, and the run's of {versions[part.key]}", name)
        if isinstance(created, Transport) and (missing := created.missing()):
            return Unfit(missing, name)
    return _without_data(cell, (baggage.data, OWN_DATA))


def _without_data(cell: Cell, places: Sequence[str]) -> Unfit | None:
    """Set the data folder of this node to the first place with the cell's data set; report its absence otherwise."""
    data_set, searched = cell.data_set, []
    for place in dict.fromkeys(places):
        os.environ[ENVIRONMENT] = place
        if data_set is None or is_here(data_set):
            return None
        searched.append(str(data_set.folder))
    assert data_set is not None
    reason = f"{data_set.title} is not in {' or '.join(searched)} on {platform.node()} (fflbench data fetch)"
    return Unfit(reason, data_of(cell))


@functools.cache
def _load(plugins: tuple[str, ...], sources: tuple[tuple[str, str], ...]) -> str:
    """Load the plugins, once per process; return their errors, or an empty text."""
    # A new folder, so that no other user can put code there.
    with tempfile.TemporaryDirectory(prefix="fflbench-plugins-") as folder:
        written = {}
        for place, (name, text) in enumerate(sources):
            file = Path(folder) / str(place) / Path(name).name
            file.parent.mkdir()
            file.write_text(text, "utf-8")
            written[name] = str(file)
        return "; ".join(map(str, registry.load_named([written.get(name, name) for name in plugins])))


class _Connection:
    """Connection of a cell to the driver, for reports, checkpoints and the request to stop.

    A separate thread waits for Ray: while the main thread of a task waits for Ray, Ray lends its processor to the next
    task. Checkpoints stay in the node's object store until the driver fetches them.
    """

    def __init__(self, cell: str, attempt: int, desk: Any, kept: bytes | None) -> None:
        self.cell, self.attempt, self.desk, self.kept = cell, attempt, desk, kept
        self.pool = ThreadPoolExecutor(1)
        self.last, self.stop = -math.inf, False
        self.checkpoint: Any = None
        self.answer: Future[bool] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Send all remaining reports."""
        self.pool.shutdown()

    def put(self, kind: str, content: Any) -> "Future[bool]":
        """Send a report; the result is whether to stop."""

        def wait() -> bool:
            import ray

            answer: bool = ray.get(self.desk.put.remote(self.cell, self.attempt, kind, content))
            return answer

        return self.pool.submit(wait)

    def note(self, message: Warning | str, *_: object, **__: object) -> None:
        """Send a warning to the driver, which shows it."""
        self.put("note", str(message))

    def read(self) -> bytes:
        """Return the checkpoint that was sent with the cell."""
        if self.kept is None:
            raise FileNotFoundError
        return self.kept

    def write(self, content: bytes) -> None:
        """Offer a checkpoint to the driver, which fetches it."""
        import ray
        from ray.exceptions import RayError

        try:
            # In a list, or Ray would send the content instead of the reference.
            self.checkpoint = [ray.put(content)]
            self.put("kept", self.checkpoint).result()
        except RayError as error:
            raise OSError(last_line(error)) from error

    def report(self, step: int, accuracy: float | None) -> None:
        """Report the current step, at most once per `REPORT_SECONDS`."""
        due = time.monotonic() - self.last >= REPORT_SECONDS
        if due and (self.answer is None or self.answer.done()):
            self.last = time.monotonic()
            self.answer = self.put("round", (step, accuracy))

    def stopping(self) -> bool:
        """Return whether the driver has asked to stop."""
        if self.answer:
            # Worth a wait, since the next round may take long; an answer that fails or is late is ignored.
            with suppress(Exception):
                self.stop |= self.answer.result(timeout=ANSWER_SECONDS)
        return self.stop


def last_line(error: BaseException) -> str:
    """Return the last line of one of Ray's errors, which follows pages of traceback."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
