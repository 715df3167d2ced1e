"""`fflbench verify`: run some cells of a leaderboard again, and compare."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fflbench.errors import FflbenchError, RecordError
from fflbench.execution.cell import play
from fflbench.progress import track
from fflbench.records.evidence import ENTRIES, ENTRY, RECORDS, Evidence, gather, read_entry
from fflbench.records.manifest import manifest
from fflbench.records.record import Record
from fflbench.records.store import write_whole
from fflbench.report.statistics import prediction
from fflbench.suites.plan import Cell

DECIDES = ("results", "python", "libraries", "system", "processor", "device")
"""What must be the same for results to be the same bits."""

COMPARED = ("accuracy", "attack_success_rate", "psnr", "label_accuracy", "recovered", "bit_accuracy")
"""The figures that are compared where bits cannot be."""
EXACT = ("bytes", "diverged")
"""What must be the same on every machine."""
LEVEL = 0.99
"""How often one more seed falls into the interval; several figures are looked at."""


@dataclass(frozen=True)
class Verdict:
    """What came of one cell."""

    record: Record
    how: Literal["same bits", "in the interval", "differs", "cannot be compared"]
    why: str

    def __str__(self) -> str:
        return f"{self.how}: {self.record} ({self.why})"


def verify(
    folder: Path, sample: int, seed: int, plugins: Sequence[str], device: str = "cpu"
) -> tuple[list[Verdict], list[str]]:
    """Run a sample of cells again, those reported from outside first where their plugins are loaded.

    What came of it, and what is wrong with the evidence itself.
    """
    found = gather(folder)
    chosen = _chosen(found, sample, seed, reported=bool(plugins))
    if not chosen:
        raise RecordError(f"{folder} has no cell that could be run again and compared")
    verdicts = [_verdict(found, record, device, plugins) for record in track(chosen, "Running again")]
    _enter(found, [verdict.record.id for verdict in verdicts if verdict.how in ("same bits", "in the interval")])
    return verdicts, found.problems


def _chosen(found: Evidence, sample: int, seed: int, *, reported: bool) -> list[Record]:
    able = [record for record in found.records if record.status == "done" and _repeatable(record)]
    # Which ones follows from the seed alone, so that others can look at the same.
    shuffled = random.Random(seed).sample(able, len(able))  # noqa: S311 (no secret)
    if reported:
        shuffled.sort(key=lambda record: record.id not in found.reported)
    return shuffled[:sample]


def _repeatable(record: Record) -> bool:
    """Whether its code is here, and it measures no time."""
    cell = Cell(record.configuration, record.labels)
    try:
        for kind in cell.kinds:
            cell.create(kind)
    except (FflbenchError, KeyError, TypeError):
        return False
    return not (cell.measure and cell.measure.alone)


def _verdict(found: Evidence, record: Record, device: str, plugins: Sequence[str]) -> Verdict:
    cell = Cell(record.configuration, record.labels)
    again = play(cell, record.suite, device=device, plugins=plugins)
    if again.status == "failed":
        return Verdict(record, "differs", f"it fails now: {again.reason}")
    here = manifest(cell, device, plugins)
    other = [name for name in DECIDES if record.manifest.get(name) != here[name]]
    if not other:
        apart = [name for name, value in record.result().items() if again.result()[name] != value]
        if apart:
            return Verdict(record, "differs", f"in {', '.join(apart)}")
        return Verdict(record, "same bits", "same versions and processor")
    return _compare(found, record, again, f"made with another {' and '.join(other)}")


def _compare(found: Evidence, record: Record, again: Record, why: str) -> Verdict:
    """Whether what is recorded, and what came out now, are both what the other seeds of the cell let expect."""
    for name in EXACT:
        if record.metrics.get(name) != again.metrics.get(name):
            return Verdict(record, "differs", f"{why}; {name} was {record.metrics.get(name)}, is {again.metrics[name]}")
    looked_at = []
    for name in COMPARED:
        was, now = record.metrics.get(name), again.metrics.get(name)
        if type(was) is not type(now):
            return Verdict(record, "differs", f"{why}; {name} was {was}, is {now}")
        expected = prediction(list(_others(found, record, name)), LEVEL)
        if expected is None or not isinstance(was, float | int) or not isinstance(now, float | int):
            continue
        low, high = expected
        told = f"{name} was {was:.4g}, is {now:.4g}, and other seeds let expect {low:.4g} to {high:.4g}"
        if not (low <= was <= high and low <= now <= high):
            return Verdict(record, "differs", f"{why}; {told}")
        looked_at.append(told)
    if not looked_at:
        exact = any(name in record.metrics for name in EXACT[:1])
        if exact:
            return Verdict(record, "in the interval", f"{why}; the same bytes were sent")
        return Verdict(record, "cannot be compared", f"{why}; too few other seeds to say what to expect")
    return Verdict(record, "in the interval", f"{why}; {'; '.join(looked_at)}")


def _others(found: Evidence, record: Record, name: str) -> Iterator[float]:
    """A figure of the other seeds of the same cell."""

    def without_seed(of: Record) -> dict[str, object]:
        return {key: value for key, value in of.configuration.items() if key != "seed"}

    for other in found.records:
        value = other.metrics.get(name)
        same = without_seed(other) == without_seed(record) and other.id != record.id
        if same and isinstance(value, float | int):
            yield float(value)


def _enter(found: Evidence, verified: list[str]) -> None:
    """Note in entries from outside which of their cells came out the same here."""
    for folder in sorted((found.folder / ENTRIES).glob("*")):
        ours = [cell for cell in verified if (folder / RECORDS / f"{cell}.json").exists()]
        if ours:
            entry = read_entry(folder)
            told = entry.model_copy(update={"verified": tuple(sorted({*entry.verified, *ours}))})
            write_whole(folder / ENTRY, (told.model_dump_json(indent=1) + "\n").encode())
