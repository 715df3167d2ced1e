"""Run of a cell on a node of a Ray cluster, and its reports to the driver."""

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
from fflbench.data.cache import is_available
from fflbench.data.dataset_files import ENVIRONMENT
from fflbench.errors import FflbenchError
from fflbench.execution.jobs_and_events import CannotRun, Stopped
from fflbench.execution.run_cell import StoppedError, run_cell
from fflbench.federation import Transport
from fflbench.records import cell_configuration
from fflbench.records.cell_configuration import ConfiguredPart
from fflbench.records.manifest import RESULTS_VERSION, source_commit
from fflbench.records.record import Record
from fflbench.registration import FACTORIES
from fflbench.suites.cell import Cell

OWN_DATA = os.environ.get(ENVIRONMENT, "")
"""Folder of this node's data, where the driver's folder has none."""
REPORT_SECONDS = 1.0
"""Least seconds between two reports of a cell's rounds."""
ANSWER_SECONDS = 1.0
"""Most seconds that a cell waits for the answer whether to stop."""


@dataclass(frozen=True)
class NodeSettings:
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


class ReportCollector:
    """Actor that collects the reports of cells and answers whether to stop; cells and driver both reach it."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, str, Any]] = []
        self.stopping = False

    def add(self, cell: str, attempt: int, kind: str, content: Any) -> bool:
        """Add a report of a cell; return whether the cell is to stop."""
        self.reports.append((cell, attempt, kind, content))
        return self.stopping

    def take_reports(self) -> list[tuple[str, int, str, Any]]:
        """Return all reports since the last call."""
        reports, self.reports = self.reports, []
        return reports

    def stop(self) -> None:
        """Answer from now on that cells are to stop."""
        self.stopping = True


def run_cell_on_node(
    cell: Cell,
    versions: Mapping[str, int | str],
    attempt: int,
    settings: NodeSettings,
    saved: bytes | None,
    collector: Any,
) -> Record | CannotRun | Stopped:
    """Run a cell, or return the reason why this node cannot."""
    import ray

    with _DriverConnection(cell.id, attempt, collector, saved) as driver, warnings.catch_warnings():
        warnings.showwarning = driver.note
        if driver.send("started", ray.get_runtime_context().get_node_id()).result():
            return Stopped(saved is not None)
        if refusal := _check_node(cell, versions, settings):
            return refusal
        try:
            return run_cell(
                cell,
                settings.suite,
                device=settings.device,
                plugins=settings.plugins,
                checkpoint=driver,
                report=driver.report,
                stopping=driver.stopping,
            )
        except StoppedError as stopped:
            return Stopped(stopped.saved)


def _plugin_label(part: ConfiguredPart) -> str:
    """Return the name of a part of a cell that nodes and driver use."""
    return f"{part.kind} {part.name}"


def _dataset_label(cell: Cell) -> str:
    """Return the name of the data set that a cell needs, or an empty text."""
    return f"data {cell.data_set.name}" if cell.data_set else ""


def names_of_required_parts(cell: Cell) -> set[str]:
    """Return the names of all parts that a node must have, and the empty name, which means all cells."""
    return {"", _dataset_label(cell), *map(_plugin_label, cell_configuration.registered_parts(cell.configuration))}


def _check_node(cell: Cell, versions: Mapping[str, int | str], settings: NodeSettings) -> CannotRun | None:
    """Return the reason why this node cannot run a cell as the driver's machine would, or None."""
    theirs, ours = f"{settings.version} {settings.commit[:8]}", f"{__version__} {source_commit()[:8]}"
    if settings.version != __version__ or (source_commit() and settings.commit and source_commit() != settings.commit):
        return CannotRun(f"it has fflbench {ours.strip()}, but the run uses {theirs.strip()}; install the same")
    if versions["core"] != RESULTS_VERSION:
        return CannotRun(f"its fflbench has results version {RESULTS_VERSION}, but the run's has {versions['core']}")
    if failure := _load_plugins(settings.plugins, settings.sources):
        return CannotRun(failure)
    for part in cell_configuration.registered_parts(cell.configuration):
        name = _plugin_label(part)
        try:
            entry = registry.get(part.kind, part.name)
            created = None if part.kind in FACTORIES else entry.create(**part.parameters)
        except FflbenchError as error:
            return CannotRun(str(error), name)
        if (version := entry.results_version) != versions[part.key]:
            return CannotRun(f"its {name} has results version {version}, but the run's has {versions[part.key]}", name)
        if isinstance(created, Transport) and (missing := created.missing_dependency()):
            return CannotRun(missing, name)
    return _use_folder_with_dataset(cell, (settings.data, OWN_DATA))


def _use_folder_with_dataset(cell: Cell, folders: Sequence[str]) -> CannotRun | None:
    """Set the data folder of this node to the first one with the cell's data set; report its absence otherwise."""
    data_set, searched = cell.data_set, []
    for folder in dict.fromkeys(folders):
        os.environ[ENVIRONMENT] = folder
        if data_set is None or is_available(data_set):
            return None
        searched.append(str(data_set.folder))
    assert data_set is not None
    reason = f"{data_set.title} is not in {' or '.join(searched)} on {platform.node()} (fflbench data fetch)"
    return CannotRun(reason, _dataset_label(cell))


@functools.cache
def _load_plugins(plugins: tuple[str, ...], sources: tuple[tuple[str, str], ...]) -> str:
    """Load the plugins, once per process; return their errors, or an empty text."""
    # A new folder, so that no other user can put code there.
    with tempfile.TemporaryDirectory(prefix="fflbench-plugins-") as folder:
        written = {}
        for number, (name, text) in enumerate(sources):
            file = Path(folder) / str(number) / Path(name).name
            file.parent.mkdir()
            file.write_text(text, "utf-8")
            written[name] = str(file)
        return "; ".join(map(str, registry.load_named([written.get(name, name) for name in plugins])))


class _DriverConnection:
    """Connection of a cell to the driver, for reports, checkpoints and the request to stop.

    A separate thread waits for Ray: while the main thread of a task waits for Ray, Ray lends its processor to the next
    task. Checkpoints stay in the node's object store until the driver fetches them.
    """

    def __init__(self, cell: str, attempt: int, collector: Any, saved: bytes | None) -> None:
        self.cell, self.attempt, self.collector, self.saved = cell, attempt, collector, saved
        self.pool = ThreadPoolExecutor(1)
        self.last, self.stop = -math.inf, False
        self.checkpoint: Any = None
        self.answer: Future[bool] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Send all remaining reports."""
        self.pool.shutdown()

    def send(self, kind: str, content: Any) -> "Future[bool]":
        """Send a report; the result is whether to stop."""

        def wait() -> bool:
            import ray

            answer: bool = ray.get(self.collector.add.remote(self.cell, self.attempt, kind, content))
            return answer

        return self.pool.submit(wait)

    def note(self, message: Warning | str, *_: object, **__: object) -> None:
        """Send a warning to the driver, which shows it."""
        self.send("note", str(message))

    def read_checkpoint(self) -> bytes:
        """Return the checkpoint that was sent with the cell."""
        if self.saved is None:
            raise FileNotFoundError
        return self.saved

    def write_checkpoint(self, content: bytes) -> None:
        """Offer a checkpoint to the driver, which fetches it."""
        import ray
        from ray.exceptions import RayError

        try:
            # In a list, or Ray would send the content instead of the reference.
            self.checkpoint = [ray.put(content)]
            self.send("checkpoint", self.checkpoint).result()
        except RayError as error:
            raise OSError(last_line_of_error(error)) from error

    def report(self, step: int, accuracy: float | None) -> None:
        """Report the current step, at most once per `REPORT_SECONDS`."""
        due = time.monotonic() - self.last >= REPORT_SECONDS
        if due and (self.answer is None or self.answer.done()):
            self.last = time.monotonic()
            self.answer = self.send("round", (step, accuracy))

    def stopping(self) -> bool:
        """Return whether the driver has asked to stop."""
        if self.answer:
            # Worth a wait, since the next round may take long; an answer that fails or is late is ignored.
            with suppress(Exception):
                self.stop |= self.answer.result(timeout=ANSWER_SECONDS)
        return self.stop


def last_line_of_error(error: BaseException) -> str:
    """Return the last line of one of Ray's errors, which follows pages of traceback."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
