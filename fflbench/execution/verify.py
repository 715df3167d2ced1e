"""`fflbench verify`: run some cells of a leaderboard again, and compare."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard

from fflbench.errors import FflbenchError, RecordError
from fflbench.execution.cell import play
from fflbench.measures.measure import Measure
from fflbench.metrics import STILL, Metric
from fflbench.progress import track
from fflbench.records.evidence import ENTRY, Evidence, gather, read_entry
from fflbench.records.folder import refuse_links, replace_files
from fflbench.records.manifest import manifest
from fflbench.records.packed import ENTRIES
from fflbench.records.record import Record
from fflbench.statistics import prediction
from fflbench.suites.cell import Cell

DECIDES = ("results", "python", "libraries", "system", "processor", "device")
"""What must be the same for results to be the same bits."""

LEVEL = 0.99
"""How often one more seed falls into the interval; several figures are looked at."""

HOLD = ("same bits", "reproduced")
"""Verdicts that let a figure stand."""


@dataclass(frozen=True)
class Verdict:
    """What came of one cell."""

    record: Record
    how: Literal["same bits", "reproduced", "plausible, not reproduced", "different", "cannot be compared"]
    why: str

    @property
    def holds(self) -> bool:
        """Whether the recorded figure was found again."""
        return self.how in HOLD

    def __str__(self) -> str:
        return f"{self.how}: {self.record} ({self.why})"


def verify(
    folder: Path, sample: int, seed: int, plugins: Sequence[str], device: str = "cpu"
) -> tuple[list[Verdict], list[str]]:
    """Run a sample of cells again, those reported from outside first where their plugins are loaded.

    What came of it, and what is wrong with the evidence itself.
    """
    found = gather(folder)
    refuse_links(folder / ENTRIES)
    chosen = _chosen(found, sample, seed, reported=bool(plugins))
    if not chosen:
        raise RecordError(f"{folder} has no cell that could be run again and compared")
    verdicts = [_verdict(found, record, device, plugins) for record in track(chosen, "Running again")]
    _enter(found, [verdict.record.id for verdict in verdicts if verdict.holds])
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
    cell = Cell.of(record)
    try:
        cell.created()
    except (FflbenchError, KeyError, TypeError):
        return False
    return not cell.measure.alone


def _verdict(found: Evidence, record: Record, device: str, plugins: Sequence[str]) -> Verdict:
    cell = Cell.of(record)
    again = play(cell, record.suite, device=device, plugins=plugins)
    if again.status == "failed":
        return Verdict(record, "different", f"it fails now: {again.reason}")
    here = manifest(cell.configuration, device, plugins)
    other = [name for name in DECIDES if record.manifest.get(name) != here[name]]
    if not other:
        apart = [name for name, value in record.result().items() if again.result()[name] != value]
        if apart:
            return Verdict(record, "different", f"in {', '.join(apart)}")
        return Verdict(record, "same bits", "same versions and processor")
    return _compare(found, cell.measure, record, again, f"made with another {' and '.join(other)}")


def _compare(found: Evidence, measure: Measure, record: Record, again: Record, why: str) -> Verdict:
    """Hold every figure to what moves between processors, and where it moved further to what other seeds came to."""
    for name in measure.exact_facts:
        if record.facts.get(name) != again.facts.get(name):
            return Verdict(record, "different", f"{why}; in {name}")
    if not math.isclose(_epsilon(record), _epsilon(again), rel_tol=STILL):
        return Verdict(record, "different", f"{why}; epsilon was {_epsilon(record):.4g}, is {_epsilon(again):.4g}")
    declared = {metric.name: metric for metric in measure.metrics}
    plausible, unknown, close = [], [], []
    for name in dict.fromkeys([*record.metrics, *again.metrics]):
        was, now = record.metrics.get(name), again.metrics.get(name)
        if isinstance(was, list) and isinstance(now, list):
            # By class, of which some have few examples: the whole is compared.
            continue
        told = f"{name} was {_text(was)}, is {_text(now)}"
        metric = declared.get(name) or Metric(name=name, title=name, meaning="")
        if not _is_number(was) or not _is_number(now) or metric.exact:
            if was != now:
                return Verdict(record, "different", f"{why}; {told}")
            continue
        reach = metric.reach(min(was, now))
        if abs(was - now) <= reach:
            close.append(told)
            continue
        told += f", and processors differ by {reach:.2g} at most"
        expected = prediction(list(_others(found, record, name)), LEVEL, share=metric.is_share)
        if expected and all(expected[0] <= value <= expected[1] for value in (was, now)):
            plausible.append(f"{told}, other seeds let expect {expected[0]:.4g} to {expected[1]:.4g}")
        elif expected or metric.drift is not None:
            let = f"other seeds let expect {expected[0]:.4g} to {expected[1]:.4g}" if expected else "no other seeds"
            return Verdict(record, "different", f"{why}; {told}; {let}")
        else:
            unknown.append(f"{told}; too few other seeds to say what to expect")
    if unknown:
        return Verdict(record, "cannot be compared", f"{why}; {'; '.join(unknown)}")
    if plausible:
        return Verdict(record, "plausible, not reproduced", f"{why}; {'; '.join(plausible)}")
    return Verdict(record, "reproduced", f"{why}; {'; '.join(close[:3]) or 'the same figures'}")


def _epsilon(record: Record) -> float:
    """Return the privacy that a defense guarantees by a proof; infinite for none."""
    epsilon = (record.facts.get("guarantee") or {}).get("epsilon")
    return math.inf if epsilon is None else float(epsilon)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return f"{value:.4g}" if _is_number(value) else str(value)


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
    changed = {}
    for folder in sorted((found.folder / ENTRIES).glob("[!.]*")):
        ours = [cell for cell in verified if found.places[cell].folder == folder]
        if ours:
            entry = read_entry(folder)
            told = entry.model_copy(update={"verified": tuple(sorted({*entry.verified, *ours}))})
            changed[f"{folder.name}/{ENTRY}"] = (told.model_dump_json(indent=1) + "\n").encode()
    if changed:
        try:
            replace_files(found.folder / ENTRIES, changed)
        except OSError as error:
            raise RecordError(f"what was verified cannot be noted in {found.folder}: {error.strerror}") from error
