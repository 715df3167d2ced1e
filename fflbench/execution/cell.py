"""Run of one cell, from its configuration to its record, independent of other cells and of the executor."""

import hashlib
import json
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fflbench.errors import FflbenchError, in_a_line, spelled_out
from fflbench.measures.measure import Context
from fflbench.reading import read_bytes
from fflbench.records.arrays import pack, unpack
from fflbench.records.manifest import manifest, results_versions
from fflbench.records.record import Record
from fflbench.records.store import write_whole
from fflbench.suites.cell import Cell
from fflbench.types import State

CHECKPOINT_SECONDS = 60.0
"""Seconds between checkpoints: the most work that a crash may cost."""

LARGEST = 2**40
"""Most bytes of a checkpoint, which grows with models and updates."""

LONGEST_REASON = 2000
"""Most characters of a cell's error that its record keeps."""

CHECKPOINT_SHARE = 0.05
"""Greatest share of a cell's time for checkpoints: slow writes make them rarer."""


class Place(Protocol):
    """Storage of a cell's checkpoint."""

    def read(self) -> bytes:
        """Return the checkpoint, or raise an `OSError` if there is none."""

    def write(self, content: bytes) -> None:
        """Replace the checkpoint."""


class File:
    """Checkpoint on disk."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> bytes:
        """Return the content of the file."""
        return read_bytes(self.file, LARGEST)

    def write(self, content: bytes) -> None:
        """Replace the file atomically."""
        write_whole(self.file, content)


class StoppedError(Exception):
    """Cell that stopped on request."""

    def __init__(self, kept: bool) -> None:
        self.kept = kept
        """Whether its state was saved."""


def play(
    cell: Cell,
    suite: str,
    *,
    device: str = "cpu",
    plugins: Sequence[str] = (),
    checkpoint: Place | None = None,
    report: Callable[[int, float | None], None] = lambda step, accuracy: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Record:
    """Run a cell and return its record, which holds the error if the cell failed.

    If the cell is asked to stop, its state is saved and `StoppedError` raised as soon as its measure offers the state;
    a measure that never does runs to its end.
    """
    start = time.perf_counter()
    # Identified by cell and versions, since a file can be renamed.
    kept = _Checkpoint(checkpoint, {"cell": cell.id, **results_versions(cell.configuration)}) if checkpoint else None

    def keep(state: Callable[[], State]) -> None:
        if kept and stopping():
            raise StoppedError(kept.keep(state()))
        if kept and kept.due:
            kept.keep(state())

    try:
        outcome = cell.measure.run(
            Context(
                **cell.created(),
                seed=cell.seed,
                device=device,
                report=report,
                keep=keep,
                resume=kept.resume if kept else lambda restore: None,
            )
        )
        before = kept.before if kept else 0.0
        record = record_of(
            cell,
            suite,
            device,
            plugins,
            status="done",
            metrics=outcome.metrics,
            facts=outcome.facts,
            history=outcome.history,
            seconds={**outcome.seconds, "total": before + time.perf_counter() - start},
        ).carrying(pack(outcome.arrays))
        # A result that JSON cannot hold must fail here, in its own cell.
        record.json_text()
        return record
    except StoppedError:
        raise
    except (Exception, SystemExit) as error:
        return record_of(cell, suite, device, plugins, status="failed", error=_reason(error))


def _reason(error: BaseException) -> str:
    """Return the error in the last line, after where it arose, by file names only, since paths differ by machine."""
    if isinstance(error, FflbenchError):
        return spelled_out(str(error)[:LONGEST_REASON])
    places = [
        f"{Path(at.filename).name}:{at.lineno} in {at.name}" for at in traceback.extract_tb(error.__traceback__)[-6:]
    ]
    return spelled_out("\n".join([*places, in_a_line(error)]))


def record_of(cell: Cell, suite: str, device: str, plugins: Sequence[str], **results: Any) -> Record:
    """Return a cell's record with the given results."""
    return Record(
        id=cell.id,
        suite=suite,
        labels=dict(cell.labels),
        sweep={kind: dict(sweep) for kind, sweep in cell.sweep.items()},
        shared_by={label: dict(sweep) for label, sweep in cell.shared_by.items()},
        configuration=dict(cell.configuration),
        manifest=manifest(cell.configuration, device, plugins),
        **results,
    )


class _Checkpoint:
    """Checkpoint of a measure's state: a digest, then arrays and facts, not pickled, for the same versions only."""

    def __init__(self, place: Place, versions: dict[str, int | str]) -> None:
        self.place, self.versions = place, versions
        self.start = self.last = time.monotonic()
        self.took = 0.0
        self.before = 0.0
        """Seconds that earlier runs of the cell took, up to the state from which it resumed."""

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self.last >= max(CHECKPOINT_SECONDS, self.took / CHECKPOINT_SHARE)

    def keep(self, state: State) -> bool:
        """Write the state and return whether that worked; if not, the cell continues without a checkpoint."""
        start = time.monotonic()
        seconds = self.before + start - self.start
        text = json.dumps({"versions": self.versions, "seconds": seconds, "facts": state.facts}).encode()
        try:
            packed = pack({FACTS: np.frombuffer(text, np.uint8), **state.arrays}, compressed=False)
            self.place.write(hashlib.sha256(packed).digest() + packed)
            kept = True
        except OSError as error:
            kept = False
            warnings.warn(f"a cell's checkpoint could not be kept: {error.strerror or error}", stacklevel=2)
        self.last = time.monotonic()
        self.took = self.last - start
        return kept

    def resume(self, restore: Callable[[State], None]) -> None:
        """Restore the saved state; a checkpoint that is damaged or of other versions is ignored."""
        try:
            content = memoryview(self.place.read())
            digest, packed = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
            if hashlib.sha256(packed).digest() != digest:
                return
            arrays = unpack(bytes(packed), limit=2 * len(packed), most=None)
            kept = json.loads(arrays.pop(FACTS).tobytes())
            if kept["versions"] == self.versions:
                before = float(kept["seconds"])
                restore(State(arrays, kept["facts"]))
                self.before = before
        except Exception:
            # Anyone may have written the file, and the cell can always start from its first round.
            return


DIGEST_BYTES = hashlib.sha256().digest_size
FACTS = "facts.json"
