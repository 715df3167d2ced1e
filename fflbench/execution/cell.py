"""One cell, from its configuration to its record; it knows nothing of other cells or of who runs it."""

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
"""How much work a crash may cost at most, and from which length on cells checkpoint at all."""

LARGEST = 2**40
"""Bytes of a checkpoint; one may be as large as models and updates are."""

LONGEST_REASON = 2000
"""Letters of a cell's error that its record keeps."""

CHECKPOINT_SHARE = 0.05
"""Of a cell's time that may go into checkpoints: where writing one takes long, they become rarer."""


class Place(Protocol):
    """Where a cell's checkpoint is kept."""

    def read(self) -> bytes:
        """What was kept; an `OSError` if nothing was."""

    def write(self, content: bytes) -> None:
        """Keep this instead."""


class File:
    """A checkpoint on disk."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> bytes:
        """Its content."""
        return read_bytes(self.file, LARGEST)

    def write(self, content: bytes) -> None:
        """Put this there, whole or not at all."""
        write_whole(self.file, content)


class StoppedError(Exception):
    """A cell was asked to stop and did."""

    def __init__(self, kept: bool) -> None:
        self.kept = kept
        """Whether its state could be kept."""


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
    """Run a cell; whatever goes wrong in it is in its record.

    Where its measure offers its state and the cell is to stop, the state is kept and `StoppedError` raised; a measure
    that never does is run to its end.
    """
    start = time.perf_counter()
    # Of this cell and these versions alone, under whatever name the file comes.
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
        # What JSON cannot hold is this cell's fault, and nobody else's.
        record.json_text()
        return record
    except StoppedError:
        raise
    except (Exception, SystemExit) as error:
        return record_of(cell, suite, device, plugins, status="failed", error=_reason(error))


def _reason(error: BaseException) -> str:
    """What happened, in the last line, and where, by file names alone: paths tell of the machine, not of the error."""
    if isinstance(error, FflbenchError):
        return spelled_out(str(error)[:LONGEST_REASON])
    places = [
        f"{Path(at.filename).name}:{at.lineno} in {at.name}" for at in traceback.extract_tb(error.__traceback__)[-6:]
    ]
    return spelled_out("\n".join([*places, in_a_line(error)]))


def record_of(cell: Cell, suite: str, device: str, plugins: Sequence[str], **found: Any) -> Record:
    """A cell's record, with what was found."""
    return Record(
        id=cell.id,
        suite=suite,
        labels=dict(cell.labels),
        sweep={kind: dict(sweep) for kind, sweep in cell.sweep.items()},
        shared_by={label: dict(sweep) for label, sweep in cell.shared_by.items()},
        configuration=dict(cell.configuration),
        manifest=manifest(cell.configuration, device, plugins),
        **found,
    )


class _Checkpoint:
    """A measure's state in one file, good for one cell's versions: a digest, then arrays and facts, not pickled."""

    def __init__(self, place: Place, versions: dict[str, int | str]) -> None:
        self.place, self.versions = place, versions
        self.start = self.last = time.monotonic()
        self.took = 0.0
        self.before = 0.0
        """Seconds that earlier runs of the cell took, up to the state it resumed from."""

    @property
    def due(self) -> bool:
        """Whether the last writing is a while ago."""
        return time.monotonic() - self.last >= max(CHECKPOINT_SECONDS, self.took / CHECKPOINT_SHARE)

    def keep(self, state: State) -> bool:
        """Write the state; where that cannot be done the cell goes on without. Says whether it was."""
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
        """Go on from what is there; a checkpoint that is damaged or of other versions is as good as none."""
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
            # Whoever wrote it, with whatever in it: the cell can always begin anew.
            return


DIGEST_BYTES = hashlib.sha256().digest_size
FACTS = "facts.json"
