"""`fflbench verify`: run some cells of a leaderboard again, and compare."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeGuard

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
from fflbench.report.statistics import prediction
from fflbench.suites.cell import Cell

DECIDES = ("results", "python", "libraries", "system", "processor", "device")
"""Keys of a manifest that must agree for results to agree to the bit."""

LEVEL = 0.99
"""Level of the prediction interval for one more seed; high, since several figures are compared."""

HOLD = ("same bits", "reproduced")
"""Verdicts by which a recorded figure is confirmed."""


How: TypeAlias = Literal["same bits", "reproduced", "plausible, not reproduced", "different", "cannot be compared"]


@dataclass(frozen=True)
class Verdict:
    """Result of running one cell again."""

    record: Record
    how: How
    why: str

    @property
    def holds(self) -> bool:
        """Whether the recorded figure was confirmed."""
        return self.how in HOLD

    def __str__(self) -> str:
        return f"{self.how}: {self.record} ({self.why})"


def verify(
    folder: Path, sample: int, seed: int, plugins: Sequence[str], device: str = "cpu"
) -> tuple[list[Verdict], list[str]]:
    """Run a sample of cells again, those reported from outside first where their plugins are loaded.

    Return the verdicts, and the problems of the evidence itself.
    """
    evidence = gather(folder)
    refuse_links(folder / ENTRIES)
    chosen = _chosen(evidence, sample, seed, reported=bool(plugins))
    if not chosen:
        raise RecordError(f"{folder} has no cell that could be run again and compared")
    verdicts = [_verdict(evidence, record, device, plugins) for record in track(chosen, "Running again")]
    _enter(evidence, [verdict.record.id for verdict in verdicts if verdict.holds])
    return verdicts, evidence.problems


def _chosen(evidence: Evidence, sample: int, seed: int, *, reported: bool) -> list[Record]:
    able = [record for record in evidence.records if record.status == "done" and _repeatable(record)]
    # The seed alone decides which ones, so that others can repeat the same sample.
    shuffled = random.Random(seed).sample(able, len(able))  # noqa: S311 (no secret)
    if reported:
        shuffled.sort(key=lambda record: record.id not in evidence.reported)
    return shuffled[:sample]


def _repeatable(record: Record) -> bool:
    """Return whether a record's plugins are installed and its measure does not measure time."""
    cell = Cell.of(record)
    try:
        cell.created()
    except (FflbenchError, KeyError, TypeError):
        return False
    return not cell.measure.alone


def _verdict(evidence: Evidence, record: Record, device: str, plugins: Sequence[str]) -> Verdict:
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
    return _compare(evidence, cell.measure, record, again, f"made with another {' and '.join(other)}")


def _compare(evidence: Evidence, measure: Measure, record: Record, again: Record, why: str) -> Verdict:
    """Compare every metric by its drift between processors and, beyond that, by the metrics of other seeds."""
    for name in measure.exact_facts:
        if record.facts.get(name) != again.facts.get(name):
            return Verdict(record, "different", f"{why}; in {name}")
    if not math.isclose(_epsilon(record), _epsilon(again), rel_tol=STILL):
        return Verdict(record, "different", f"{why}; epsilon was {_epsilon(record):.4g}, is {_epsilon(again):.4g}")
    declared = {metric.name: metric for metric in measure.metrics}
    reasons: dict[How, list[str]] = {"cannot be compared": [], "plausible, not reproduced": [], "reproduced": []}
    for name in dict.fromkeys([*record.metrics, *again.metrics]):
        metric = declared.get(name) or Metric(name=name, title=name, meaning="")
        how, reason = _compare_metric(evidence, metric, record, again)
        if how == "different":
            return Verdict(record, "different", f"{why}; {reason}")
        if how:
            reasons[how].append(reason)
    weaker: tuple[How, ...] = ("cannot be compared", "plausible, not reproduced")
    for verdict in weaker:
        if reasons[verdict]:
            return Verdict(record, verdict, f"{why}; {'; '.join(reasons[verdict])}")
    return Verdict(record, "reproduced", f"{why}; {'; '.join(reasons['reproduced'][:3]) or 'the same figures'}")


def _compare_metric(evidence: Evidence, metric: Metric, record: Record, again: Record) -> tuple[How | None, str]:
    """Return the verdict on one metric and the reason for it; no verdict where there is nothing to report."""
    was, now = record.metrics.get(metric.name), again.metrics.get(metric.name)
    if isinstance(was, list) and isinstance(now, list):
        # By class, of which some have few examples: the whole is compared.
        return None, ""
    change = f"{metric.name} was {_text(was)}, is {_text(now)}"
    if not _is_number(was) or not _is_number(now) or metric.exact:
        return (None, "") if was == now else ("different", change)
    reach = metric.reach(min(was, now))
    if abs(was - now) <= reach:
        return "reproduced", change
    change += f", and processors differ by {reach:.2g} at most"
    interval = prediction(list(_others(evidence, record, metric.name)), LEVEL, share=metric.is_share)
    if interval is None:
        if metric.drift is not None:
            return "different", f"{change}; no other seeds"
        return "cannot be compared", f"{change}; too few other seeds to say what to expect"
    low, high = interval
    expected = f"other seeds let expect {low:.4g} to {high:.4g}"
    if all(low <= value <= high for value in (was, now)):
        return "plausible, not reproduced", f"{change}, {expected}"
    return "different", f"{change}; {expected}"


def _epsilon(record: Record) -> float:
    """Return the privacy that a defense guarantees by a proof; infinite for none."""
    epsilon = (record.facts.get("guarantee") or {}).get("epsilon")
    return math.inf if epsilon is None else float(epsilon)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return f"{value:.4g}" if _is_number(value) else str(value)


def _others(evidence: Evidence, record: Record, name: str) -> Iterator[float]:
    """Yield a metric of the same cell with other seeds."""

    def without_seed(of: Record) -> dict[str, object]:
        return {key: value for key, value in of.configuration.items() if key != "seed"}

    for other in evidence.records:
        value = other.metrics.get(name)
        same = without_seed(other) == without_seed(record) and other.id != record.id
        if same and isinstance(value, float | int):
            yield float(value)


def _enter(evidence: Evidence, verified: list[str]) -> None:
    """Add the confirmed cells to the entries from outside that reported them."""
    changed = {}
    for folder in sorted((evidence.folder / ENTRIES).glob("[!.]*")):
        ours = [cell for cell in verified if evidence.places[cell].folder == folder]
        if ours:
            entry = read_entry(folder)
            updated = entry.model_copy(update={"verified": tuple(sorted({*entry.verified, *ours}))})
            changed[f"{folder.name}/{ENTRY}"] = (updated.model_dump_json(indent=1) + "\n").encode()
    if changed:
        try:
            replace_files(evidence.folder / ENTRIES, changed)
        except OSError as error:
            raise RecordError(f"what was verified cannot be noted in {evidence.folder}: {error.strerror}") from error
