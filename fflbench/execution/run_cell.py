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

from fflbench.errors import FflbenchError, error_in_one_line, escape_undecodable
from fflbench.measures.measure import Context
from fflbench.records.manifest import build_manifest, results_versions
from fflbench.records.npz_file import Arrays, pack_arrays, unpack_arrays
from fflbench.records.record import Record
from fflbench.records.store import write_atomically
from fflbench.suites.cell import Cell
from fflbench.types import State
from fflbench.untrusted_files import read_bytes

CHECKPOINT_SECONDS = 60.0
"""Seconds between checkpoints: the most work that a crash may cost."""

LARGEST = 2**40
"""Most bytes of a checkpoint, which grows with models and updates."""

LONGEST_REASON = 2000
"""Most characters of a cell's error that its record keeps."""

CHECKPOINT_SHARE = 0.05
"""Greatest share of a cell's time for checkpoints: slow writes make them rarer."""


class CheckpointStorage(Protocol):
    """Storage of a cell's checkpoint."""

    def read_checkpoint(self) -> bytes:
        """Return the checkpoint, or raise an `OSError` if there is none."""

    def write_checkpoint(self, content: bytes) -> None:
        """Replace the checkpoint."""


class CheckpointFile:
    """Checkpoint on disk."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read_checkpoint(self) -> bytes:
        """Return the content of the file."""
        return read_bytes(self.file, LARGEST)

    def write_checkpoint(self, content: bytes) -> None:
        """Replace the file atomically."""
        write_atomically(self.file, content)


class StoppedError(Exception):
    """Cell that stopped on request."""

    def __init__(self, saved: bool) -> None:
        self.saved = saved
        """Whether its state was saved."""


def run_cell(
    cell: Cell,
    suite: str,
    *,
    device: str = "cpu",
    plugins: Sequence[str] = (),
    checkpoint: CheckpointStorage | None = None,
    report: Callable[[int, float | None], None] = lambda step, accuracy: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Record:
    """Run a cell and return its record, which holds the error if the cell failed.

    If the cell is asked to stop, its state is saved and `StoppedError` raised as soon as its measure offers the state;
    a measure that never does runs to its end.
    """
    start = time.perf_counter()
    # Identified by cell and versions, since a file can be renamed.
    saved = _Checkpoint(checkpoint, {"cell": cell.id, **results_versions(cell.configuration)}) if checkpoint else None

    def keep(state: Callable[[], State]) -> None:
        if saved and stopping():
            raise StoppedError(saved.save(state()))
        if saved and saved.due:
            saved.save(state())

    try:
        outcome = cell.measure.run(
            Context(
                **cell.created(),
                seed=cell.seed,
                device=device,
                report=report,
                keep=keep,
                resume=saved.resume if saved else lambda restore: None,
            )
        )
        before = saved.before if saved else 0.0
        record = make_record(
            cell,
            suite,
            device,
            plugins,
            status="done",
            metrics=outcome.metrics,
            facts=outcome.facts,
            history=outcome.history,
            seconds={**outcome.seconds, "total": before + time.perf_counter() - start},
        ).with_arrays(pack_arrays(outcome.arrays))
        # A result that JSON cannot represent must fail here, in its own cell.
        record.json_text()
        return record
    except StoppedError:
        raise
    except (Exception, SystemExit) as error:
        return make_record(cell, suite, device, plugins, status="failed", error=_error_text(error))


def _error_text(error: BaseException) -> str:
    """Return the error in the last line, after where it arose, by file names only, since paths differ by machine."""
    if isinstance(error, FflbenchError):
        return escape_undecodable(str(error)[:LONGEST_REASON])
    frames = [
        f"{Path(at.filename).name}:{at.lineno} in {at.name}" for at in traceback.extract_tb(error.__traceback__)[-6:]
    ]
    return escape_undecodable("\n".join([*frames, error_in_one_line(error)]))


def make_record(cell: Cell, suite: str, device: str, plugins: Sequence[str], **results: Any) -> Record:
    """Return a cell's record with the given results."""
    return Record(
        id=cell.id,
        suite=suite,
        labels=dict(cell.labels),
        sweep={kind: dict(sweep) for kind, sweep in cell.sweep.items()},
        shared_by={label: dict(sweep) for label, sweep in cell.shared_by.items()},
        configuration=dict(cell.configuration),
        manifest=build_manifest(cell.configuration, device, plugins),
        **results,
    )


class _Checkpoint:
    """Checkpoint of a measure's state: a digest, then arrays and facts, not pickled, for the same versions only."""

    def __init__(self, storage: CheckpointStorage, versions: dict[str, int | str]) -> None:
        self.storage, self.versions = storage, versions
        self.start = self.last = time.monotonic()
        self.took = 0.0
        self.before = 0.0
        """Seconds that earlier runs of the cell took, up to the state from which it resumed."""

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self.last >= max(CHECKPOINT_SECONDS, self.took / CHECKPOINT_SHARE)

    def save(self, state: State) -> bool:
        """Write the state and return whether that worked; if not, the cell continues without a checkpoint."""
        start = time.monotonic()
        seconds = self.before + start - self.start
        text = json.dumps({"versions": self.versions, "seconds": seconds, "facts": state.facts}).encode()
        try:
            packed = pack_arrays({FACTS: np.frombuffer(text, np.uint8), **state.arrays}, compressed=False)
            self.storage.write_checkpoint(hashlib.sha256(packed).digest() + packed)
            saved = True
        except OSError as error:
            saved = False
            warnings.warn(f"a cell's checkpoint could not be saved: {error.strerror or error}", stacklevel=2)
        self.last = time.monotonic()
        self.took = self.last - start
        return saved

    def resume(self, restore: Callable[[State], None]) -> None:
        """Restore the saved state; a checkpoint that is damaged or of other versions is ignored."""
        try:
            saved, arrays = _unpack_checkpoint(self.storage.read_checkpoint())
            if saved["versions"] == self.versions:
                before = float(saved["seconds"])
                restore(State(arrays, saved["facts"]))
                self.before = before
        except Exception:
            # Anyone may have written the file, and the cell can always start from its first round.
            return


def _unpack_checkpoint(content: bytes) -> tuple[dict[str, Any], Arrays]:
    digest, packed = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if hashlib.sha256(packed).digest() != digest:
        raise ValueError("a damaged checkpoint")
    arrays = unpack_arrays(packed, max_bytes=2 * len(packed), max_arrays=None)
    return json.loads(arrays.pop(FACTS).tobytes()), arrays


class FirstSteps:
    """Storage of a checkpoint in memory, for a cell that stops after its first steps."""

    def __init__(self, count: int) -> None:
        self.count, self.done, self.content = count, 0, b""

    def report(self, step: int, accuracy: float | None) -> None:
        """Count steps."""
        self.done = step

    def stopping(self) -> bool:
        """Return whether the cell has taken all of its steps."""
        return self.done >= self.count

    def read_checkpoint(self) -> bytes:
        """Return nothing: the cell starts from its first step."""
        raise FileNotFoundError

    def write_checkpoint(self, content: bytes) -> None:
        """Keep the content in memory."""
        self.content = content

    def history(self) -> list[dict[str, Any]]:
        """Return the history of the cell that was stopped."""
        history: list[dict[str, Any]] = _unpack_checkpoint(self.content)[0]["facts"]["history"]
        return history


DIGEST_BYTES = hashlib.sha256().digest_size
FACTS = "facts.json"
