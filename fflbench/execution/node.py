"""What a node of a Ray cluster does with a cell, and what it says to the driver meanwhile."""

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
from fflbench.records.parts import Part
from fflbench.records.record import Record
from fflbench.suites.cell import Cell

OWN_DATA = os.environ.get(ENVIRONMENT, "")
"""Where this node's data lies, if the driver knows no better."""
TELL_SECONDS = 1.0
"""How often a cell tells of its rounds."""
ANSWER_SECONDS = 1.0
"""How long it waits to hear whether to go on."""


@dataclass(frozen=True)
class Baggage:
    """What travels with every cell."""

    suite: str
    device: str
    plugins: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    """The plugins that are files, with their text."""
    data: str
    """Where the driver's data lies."""
    version: str
    commit: str


class Desk:
    """Where cells put what they have to say, and hear whether to go on. It is the one thing both sides reach."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, str, Any]] = []
        self.stopping = False

    def put(self, cell: str, attempt: int, kind: str, said: Any) -> bool:
        """Take something; returns whether the cell is to stop."""
        self.said.append((cell, attempt, kind, said))
        return self.stopping

    def read(self) -> list[tuple[str, int, str, Any]]:
        """All that was put here since the last time."""
        said, self.said = self.said, []
        return said

    def stop(self) -> None:
        """From now on, cells are to stop."""
        self.stopping = True


def play(
    cell: Cell, versions: Mapping[str, int | str], attempt: int, baggage: Baggage, kept: bytes | None, desk: Any
) -> Record | Unfit | Stopped:
    """Play a cell, or say why not."""
    import ray

    with _Line(cell.id, attempt, desk, kept) as line, warnings.catch_warnings():
        warnings.showwarning = line.note
        if line.put("started", ray.get_runtime_context().get_node_id()).result():
            return Stopped(kept is not None)
        if unfit := _unfit(cell, versions, baggage):
            return unfit
        try:
            return play_cell(
                cell,
                baggage.suite,
                device=baggage.device,
                plugins=baggage.plugins,
                checkpoint=line,
                report=line.report,
                stopping=line.stopping,
            )
        except StoppedError as stopped:
            return Stopped(stopped.kept)


def _name(part: Part) -> str:
    """A part of a cell, as nodes and driver speak of it."""
    return f"{part.kind} {part.name}"


def data_of(cell: Cell) -> str:
    """The same of the data it needs."""
    return f"data {cell.data_set.name}" if cell.data_set else ""


def parts_of(cell: Cell) -> set[str]:
    """All that a node must have, and the nothing that stands for everything."""
    return {"", data_of(cell), *map(_name, parts.parts_of(cell.configuration))}


def _unfit(cell: Cell, versions: Mapping[str, int | str], baggage: Baggage) -> Unfit | None:
    """Why this node cannot play a cell as the driver's machine would, if it cannot."""
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
    """Settle where data is looked for on this node: at the first place that has what the cell needs, if one has."""
    data_set, looked = cell.data_set, []
    for place in dict.fromkeys(places):
        os.environ[ENVIRONMENT] = place
        if data_set is None or is_here(data_set):
            return None
        looked.append(str(data_set.folder))
    assert data_set is not None
    told = f"{data_set.title} is not in {' or '.join(looked)} on {platform.node()} (fflbench data fetch)"
    return Unfit(told, data_of(cell))


@functools.cache
def _load(plugins: tuple[str, ...], sources: tuple[tuple[str, str], ...]) -> str:
    """Have the plugins, once a process; what is wrong with them, if anything."""
    # A folder of the process's own: nobody else can put code there.
    with tempfile.TemporaryDirectory(prefix="fflbench-plugins-") as folder:
        written = {}
        for place, (name, text) in enumerate(sources):
            file = Path(folder) / str(place) / Path(name).name
            file.parent.mkdir()
            file.write_text(text, "utf-8")
            written[name] = str(file)
        return "; ".join(map(str, registry.load_named([written.get(name, name) for name in plugins])))


class _Line:
    """From a cell to the driver: its rounds and its checkpoints one way, whether to stop the other.

    A thread of its own does the waiting: while a task's first thread waits for something of Ray's, Ray lends its
    processor to the next task. Checkpoints stay in the node's own store until the driver fetches them.
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
        """Say all that is still to be said."""
        self.pool.shutdown()

    def put(self, kind: str, said: Any) -> "Future[bool]":
        """Say something; the answer is whether to stop."""

        def wait() -> bool:
            import ray

            answer: bool = ray.get(self.desk.put.remote(self.cell, self.attempt, kind, said))
            return answer

        return self.pool.submit(wait)

    def note(self, message: Warning | str, *_: object, **__: object) -> None:
        """Let the driver show a warning."""
        self.put("note", str(message))

    def read(self) -> bytes:
        """The checkpoint that came with the cell."""
        if self.kept is None:
            raise FileNotFoundError
        return self.kept

    def write(self, content: bytes) -> None:
        """Let the driver fetch a checkpoint."""
        import ray
        from ray.exceptions import RayError

        try:
            # In a list, else it would go to the desk whole.
            self.checkpoint = [ray.put(content)]
            self.put("kept", self.checkpoint).result()
        except RayError as error:
            raise OSError(last_line(error)) from error

    def report(self, step: int, accuracy: float | None) -> None:
        """Say which step it is, but not of every one where they are fast."""
        due = time.monotonic() - self.last >= TELL_SECONDS
        if due and (self.answer is None or self.answer.done()):
            self.last = time.monotonic()
            self.answer = self.put("round", (step, accuracy))

    def stopping(self) -> bool:
        """Whether the driver has said to stop."""
        if self.answer:
            # It is worth waiting for: the next round may take long. One that fails or is late says nothing.
            with suppress(Exception):
                self.stop |= self.answer.result(timeout=ANSWER_SECONDS)
        return self.stop


def last_line(error: BaseException) -> str:
    """What an error of Ray's comes to: before it stand pages of where it came from."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
