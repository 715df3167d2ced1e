"""What a node of a Ray cluster does with a cell, and what it says to the driver meanwhile."""

import functools
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fflbench import __version__, registry
from fflbench.data.prepared import is_here
from fflbench.errors import FflbenchError
from fflbench.execution.cell import StoppedError
from fflbench.execution.cell import play as play_cell
from fflbench.execution.jobs import Stopped
from fflbench.records.manifest import commit, results_versions
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.suites.plan import Cell

DATA = "FFLBENCH_DATA"
OWN_DATA = os.environ.get(DATA, "")
"""Where this node's data lies, if the driver knows no better."""
TELL_SECONDS = 1.0
"""How often a cell tells of its rounds."""


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


@dataclass(frozen=True)
class Unfit:
    """A node's word that it cannot play a cell."""

    why: str


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
    cell: Cell, versions: Mapping[str, int], attempt: int, baggage: Baggage, kept: bytes | None, desk: Any
) -> Record | Unfit | Stopped:
    """Play a cell, or say why not."""
    import ray

    with _Line(cell.id, attempt, desk, kept) as line, warnings.catch_warnings():
        warnings.showwarning = line.note
        if line.put("started", ray.get_runtime_context().get_node_id()).result():
            return Stopped(kept is not None)
        if why := _unfit(cell, versions, baggage):
            return Unfit(why)
        try:
            return play_cell(
                cell,
                baggage.suite,
                device=baggage.device,
                plugins=baggage.plugins,
                checkpoint=line,
                tell=line.tell,
                stopping=line.stopping,
            )
        except StoppedError as stopped:
            return Stopped(stopped.kept)


def _unfit(cell: Cell, versions: Mapping[str, int], baggage: Baggage) -> str:
    """Why this node cannot play a cell as the driver's machine would, if it cannot."""
    if baggage.version != __version__ or (commit() and baggage.commit and commit() != baggage.commit):
        theirs, ours = f"{baggage.version} {baggage.commit[:8]}", f"{__version__} {commit()[:8]}"
        return f"it has fflbench {ours.strip()}, and the run is of {theirs.strip()}; install the same"
    if failure := _load(baggage.plugins, baggage.sources):
        return failure
    try:
        for kind in cell.kinds:
            cell.create(kind)
    except FflbenchError as error:
        return str(error)
    if results_versions(cell) != versions:
        return f"its code is of other versions: {results_versions(cell)} instead of {dict(versions)}"
    data_set, looked = cell.create(Kind.TASK).data_set, []
    for place in dict.fromkeys((baggage.data, OWN_DATA)):
        os.environ[DATA] = place
        if data_set is None or is_here(data_set):
            return ""
        looked.append(str(data_set.folder))
    return f"{data_set.title} is not in {' or '.join(looked)} on {platform.node()} (fflbench data fetch)"


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
    processor to the next task.
    """

    def __init__(self, cell: str, attempt: int, desk: Any, kept: bytes | None) -> None:
        self.cell, self.attempt, self.desk, self.kept = cell, attempt, desk, kept
        self.pool = ThreadPoolExecutor(1)
        self.last, self.stop = time.monotonic(), False
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
        """Send a checkpoint home."""
        from ray.exceptions import RayError

        try:
            self.put("kept", content).result()
        except RayError as error:
            raise OSError(last_line(error)) from error

    def tell(self, told: Mapping[str, Any]) -> None:
        """Say which round it is, but not of every one where they are fast."""
        due = time.monotonic() - self.last >= TELL_SECONDS
        if due and (self.answer is None or self.answer.done()):
            self.stopping()
            self.last = time.monotonic()
            self.answer = self.put("round", (told["round"], told["accuracy"]))

    def stopping(self) -> bool:
        """Whether the driver has said to stop."""
        # An answer that failed says nothing: the next one may.
        if self.answer and self.answer.done() and not self.answer.exception():
            self.stop |= self.answer.result()
        return self.stop


def last_line(error: BaseException) -> str:
    """What an error of Ray's comes to: before it stand pages of where it came from."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
