"""`fflbench verify`: run some cells of a leaderboard again, and compare."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

from fflbench import registry
from fflbench.errors import FflbenchError, RecordError
from fflbench.execution.run_cell import FirstSteps, StoppedError, run_cell
from fflbench.measures.measure import Measure
from fflbench.metrics import NO_DRIFT, Metric
from fflbench.progress import track_progress
from fflbench.records.collection import ENTRY, RecordCollection, read_collection, read_entry
from fflbench.records.file_replacement import refuse_symbolic_links, replace_files
from fflbench.records.jsonl_file import ENTRIES
from fflbench.records.manifest import build_manifest
from fflbench.records.record import Record
from fflbench.report import leaderboard
from fflbench.report.statistics import prediction_interval
from fflbench.suites.cell import Cell

MUST_AGREE = ("results", "python", "libraries", "system", "processor", "device")
"""Keys of a manifest that must agree for results to agree to the bit."""

LEVEL = 0.99
"""Level of the prediction interval for one more seed; high, since several figures are compared."""

CONFIRMED = ("same bits", "reproduced")
"""Verdicts by which a recorded figure is confirmed."""


TESTED = "test_loss"
"""Key that a round's history item has where the model was evaluated."""

Agreement: TypeAlias = Literal[
    "same bits", "reproduced", "plausible, not reproduced", "different", "cannot be compared"
]


@dataclass(frozen=True)
class Verdict:
    """Result of running one cell again."""

    record: Record
    outcome: Agreement
    reason: str

    @property
    def confirmed(self) -> bool:
        """Whether the recorded figure was confirmed."""
        return self.outcome in CONFIRMED

    def __str__(self) -> str:
        return f"{self.outcome}: {self.record} ({self.reason})"


def verify_sample(
    folder: Path, sample: int, seed: int, plugins: Sequence[str], device: str = "cpu", rounds: int | None = None
) -> tuple[list[Verdict], list[str]]:
    """Run a sample of cells again, those reported from outside first where their plugins are loaded.

    With `rounds`, cells with more rounds stop there, their histories are compared so far, and no cell is marked as
    verified. Return the verdicts, and the problems of the collection itself.
    """
    collection = read_collection(folder)
    refuse_symbolic_links(folder / ENTRIES)
    chosen = _sample_records(collection, sample, seed, reported=bool(plugins))
    if not chosen:
        raise RecordError(f"{folder} has no cell that could be run again and compared")
    verdicts = [
        _run_again_and_compare(collection, record, device, plugins, rounds)
        for record in track_progress(chosen, "Running again")
    ]
    confirmed = [verdict.record.id for verdict in verdicts if verdict.confirmed and not rounds]
    if _mark_verified_in_entries(collection, confirmed):
        # Without the plugins, as everybody else makes the leaderboard again.
        with registry.without_plugins(plugins):
            leaderboard.generate(folder, None)
    return verdicts, collection.problems


def _sample_records(collection: RecordCollection, sample: int, seed: int, *, reported: bool) -> list[Record]:
    able = [record for record in collection.records if record.status == "done" and _can_run_again(record)]
    # The seed alone decides which ones, so that others can repeat the same sample.
    shuffled = random.Random(seed).sample(able, len(able))  # noqa: S311 (no secret)
    if reported:
        shuffled.sort(key=lambda record: record.id not in collection.reported)
    return shuffled[:sample]


def _can_run_again(record: Record) -> bool:
    """Return whether a record's plugins are installed and its measure does not measure time."""
    cell = Cell.of(record)
    try:
        cell.created()
    except (FflbenchError, KeyError, TypeError):
        return False
    return not cell.measure.alone


def _run_again_and_compare(
    collection: RecordCollection, record: Record, device: str, plugins: Sequence[str], rounds: int | None
) -> Verdict:
    cell, part = Cell.of(record), ""
    if rounds and "round" in (record.history or [{}])[-1] and len(record.history) > rounds:
        part = f"{rounds} of {len(record.history)} rounds, "
        collection = replace(collection, records=[_as_of_round(each, rounds) for each in collection.records])
        record, again = _as_of_round(record, rounds), _run_first_rounds(cell, record, rounds, device, plugins)
    else:
        again = run_cell(cell, record.suite, device=device, plugins=plugins)
    if again.status == "failed":
        return Verdict(record, "different", f"it fails now: {again.reason}")
    again = _without_metrics_added_later(cell.measure, record, again)
    here = build_manifest(cell.configuration, device, plugins)
    other = [name for name in MUST_AGREE if record.manifest.get(name) != here[name]]
    if not other:
        differing = [
            name for name, value in record.reproducible_content().items() if again.reproducible_content()[name] != value
        ]
        if differing:
            return Verdict(record, "different", f"{part}in {', '.join(differing)}")
        return Verdict(record, "same bits", f"{part}same versions and processor")
    return _compare_records(collection, cell.measure, record, again, f"{part}made with another {' and '.join(other)}")


def _run_first_rounds(cell: Cell, record: Record, rounds: int, device: str, plugins: Sequence[str]) -> Record:
    """Return the record with the history that its cell has now, up to a round, or a failed one."""
    steps = FirstSteps(rounds)
    try:
        return run_cell(
            cell,
            record.suite,
            device=device,
            plugins=plugins,
            checkpoint=steps,
            report=steps.report,
            stopping=steps.stopping,
        )
    except StoppedError:
        return _as_of_round(record.model_copy(update={"history": steps.history()}), rounds)


def _as_of_round(record: Record, rounds: int) -> Record:
    """Return a record with its first rounds, and as metrics the values of the last of them that was evaluated."""
    history = record.history[:rounds]
    metrics: dict[str, Any] = next(
        ({name: item[name] for name in record.metrics if name in item} for item in reversed(history) if TESTED in item),
        {},
    )
    return record.model_copy(update={"history": history, "metrics": metrics})


def _without_metrics_added_later(measure: Measure, record: Record, again: Record) -> Record:
    """Return the record of a repeated cell without metrics that did not exist when its first record was made."""
    later = {metric.name for metric in measure.metrics if metric.added_later} - set(record.metrics)
    kept = {name: value for name, value in again.metrics.items() if name not in later}
    return again.model_copy(update={"metrics": kept})


def _compare_records(
    collection: RecordCollection, measure: Measure, record: Record, again: Record, why: str
) -> Verdict:
    """Compare every metric by its drift between processors and, beyond that, by the metrics of other seeds."""
    for name in measure.exact_facts:
        if record.facts.get(name) != again.facts.get(name):
            return Verdict(record, "different", f"{why}; in {name}")
    if not math.isclose(_guaranteed_epsilon(record), _guaranteed_epsilon(again), rel_tol=NO_DRIFT):
        return Verdict(
            record,
            "different",
            f"{why}; epsilon was {_guaranteed_epsilon(record):.4g}, is {_guaranteed_epsilon(again):.4g}",
        )
    declared = {metric.name: metric for metric in measure.metrics}
    reasons: dict[Agreement, list[str]] = {
        "cannot be compared": [],
        "plausible, not reproduced": [],
        "reproduced": [],
    }
    for name in dict.fromkeys([*record.metrics, *again.metrics]):
        metric = declared.get(name) or Metric(name=name, title=name, meaning="")
        outcome, reason = _compare_metric(collection, metric, record, again)
        if outcome == "different":
            return Verdict(record, "different", f"{why}; {reason}")
        if outcome:
            reasons[outcome].append(reason)
    weaker: tuple[Agreement, ...] = ("cannot be compared", "plausible, not reproduced")
    for verdict in weaker:
        if reasons[verdict]:
            return Verdict(record, verdict, f"{why}; {'; '.join(reasons[verdict])}")
    return Verdict(record, "reproduced", f"{why}; {'; '.join(reasons['reproduced'][:3]) or 'the same figures'}")


def _compare_metric(
    collection: RecordCollection, metric: Metric, record: Record, again: Record
) -> tuple[Agreement | None, str]:
    """Return the verdict on one metric and the reason for it; no verdict where there is nothing to report."""
    was, now = record.metrics.get(metric.name), again.metrics.get(metric.name)
    if isinstance(was, list) and isinstance(now, list):
        # By class, of which some have few examples: the whole is compared.
        return None, ""
    change = f"{metric.name} was {_format_value(was)}, is {_format_value(now)}"
    if not _is_number(was) or not _is_number(now) or metric.exact:
        return (None, "") if was == now else ("different", change)
    reach = metric.tolerance(min(was, now))
    if abs(was - now) <= reach:
        return "reproduced", change
    change += f", and processors differ by {reach:.2g} at most"
    interval = prediction_interval(
        list(_values_of_other_seeds(collection, record, metric.name)), LEVEL, is_share=metric.is_share
    )
    if interval is None:
        if metric.drift is not None:
            return "different", f"{change}; no other seeds"
        return "cannot be compared", f"{change}; too few other seeds for an expectation"
    low, high = interval
    expected = f"other seeds suggest {low:.4g} to {high:.4g}"
    if all(low <= value <= high for value in (was, now)):
        return "plausible, not reproduced", f"{change}, {expected}"
    return "different", f"{change}; {expected}"


def _guaranteed_epsilon(record: Record) -> float:
    """Return the privacy that a defense guarantees by a proof; infinite for none."""
    epsilon = (record.facts.get("guarantee") or {}).get("epsilon")
    return math.inf if epsilon is None else float(epsilon)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _format_value(value: object) -> str:
    return f"{value:.4g}" if _is_number(value) else str(value)


def _values_of_other_seeds(collection: RecordCollection, record: Record, name: str) -> Iterator[float]:
    """Yield a metric of the same cell with other seeds."""

    def without_seed(of: Record) -> dict[str, object]:
        return {key: value for key, value in of.configuration.items() if key != "seed"}

    for other in collection.records:
        value = other.metrics.get(name)
        same = without_seed(other) == without_seed(record) and other.id != record.id
        if same and isinstance(value, float | int):
            yield float(value)


def _mark_verified_in_entries(collection: RecordCollection, verified: list[str]) -> bool:
    """Add the confirmed cells to the entries from outside that reported them, and return whether there were any."""
    changed = {}
    for folder in sorted((collection.folder / ENTRIES).glob("[!.]*")):
        ours = [cell for cell in verified if collection.places[cell].folder == folder]
        if ours:
            entry = read_entry(folder)
            updated = entry.model_copy(update={"verified": tuple(sorted({*entry.verified, *ours}))})
            changed[f"{folder.name}/{ENTRY}"] = (updated.model_dump_json(indent=1) + "\n").encode()
    if changed:
        try:
            replace_files(collection.folder / ENTRIES, changed)
        except OSError as error:
            raise RecordError(f"verified cells cannot be recorded in {collection.folder}: {error.strerror}") from error
    return bool(changed)
