"""Progress of a run on standard error: bars on a terminal, lines in a log, or JSON."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from fflbench.execution.jobs_and_events import Event, Finished, Interrupted, Note, Progress, Started
from fflbench.execution.run_status import RunStatus
from fflbench.terminal import NARROW, console, raw_stream, replace_control_characters, wrap_lines

if TYPE_CHECKING:
    from rich import progress

PROGRESS_SECONDS = 1.0
"""Least seconds between two JSON lines about a cell's rounds."""


class Display(Protocol):
    """Display of a run's events."""

    def show(self, event: Event | None, now: RunStatus) -> None:
        """Show an event and the status of the run after it."""


@contextmanager
def open_display(*, as_json: bool = False) -> Iterator[Display]:
    """Yield the display of a run, for any executor."""
    if as_json or not sys.stderr.isatty():
        yield _JsonDisplay() if as_json else _LineDisplay()
        return
    from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from fflbench.progress_bars import FIXED, make_bars

    screen = console(cast(TextIO, _TolerantStream(raw_stream(sys.stderr))))
    count, note = MofNCompleteColumn(table_column=FIXED), TextColumn("{task.fields[note]}", markup=False)
    # On a narrow terminal, names of cells need the room of the rest.
    wide = screen.width >= NARROW
    with make_bars(screen, count, note, *([TimeElapsedColumn(table_column=FIXED)] if wide else [])) as bars:
        yield _BarDisplay(bars, most=max(1, screen.height - 4), wide=wide)


class _LineDisplay:
    def show(self, event: Event | None, now: RunStatus) -> None:
        if isinstance(event, Finished):
            ended, total = now.done + len(now.failed), now.cells - now.before
            write_line_to_stderr(f"[{ended}/{total}] {event.cell}: {cell_outcome_text(event)} ({now})")
        elif isinstance(event, Interrupted | Note):
            write_line_to_stderr(event_text(event))


class _BarDisplay:
    """Bars for all cells together and for each running cell, as many as fit on the screen."""

    def __init__(self, bars: "progress.Progress", most: int, *, wide: bool) -> None:
        self.bars, self.most, self.wide = bars, most, wide
        self.all = bars.add_task("cells", total=None, note="")
        self.each: dict[str, progress.TaskID] = {}

    def show(self, event: Event | None, now: RunStatus) -> None:
        ended, total = now.done + len(now.failed), now.cells - now.before
        pace = [now.pace_text] if self.wide else []
        note = ", ".join(filter(None, (*pace, now.left_text)))
        self.bars.update(self.all, description=f"cells: {now.counts_text}", completed=ended, total=total, note=note)
        if isinstance(event, Finished | Interrupted) and event.cell.id in self.each:
            self.bars.remove_task(self.each.pop(event.cell.id))
        if isinstance(event, Interrupted | Note) or (isinstance(event, Finished) and event.record.status == "failed"):
            self.bars.console.print(event_text(event), markup=False, highlight=False)
        for running in now.running[: self.most]:
            if running.cell not in self.each:
                if len(self.each) >= self.most:
                    break
                self.each[running.cell] = self.bars.add_task(
                    f"  {running.name}", total=running.rounds, note=running.where
                )
        if isinstance(event, Progress) and event.cell.id in self.each:
            accuracy = "" if event.accuracy is None else f"accuracy {event.accuracy:.1%}"
            self.bars.update(self.each[event.cell.id], completed=event.round, note=accuracy)


class _JsonDisplay:
    def __init__(self) -> None:
        self.reported: dict[str, float] = {}

    def show(self, event: Event | None, now: RunStatus) -> None:
        if event is None:
            return
        if isinstance(event, Progress):
            if now.seconds - self.reported.get(event.cell.id, -PROGRESS_SECONDS) < PROGRESS_SECONDS:
                return
            self.reported[event.cell.id] = now.seconds
        write_json_event(
            type(event).__name__.lower(), seconds=now.seconds, **_event_as_dict(event), **_cell_counts(now)
        )


def write_json_event(event: str, **facts: Any) -> None:
    """Write an event as one line of JSON."""
    write_line_to_stderr(json.dumps({"event": event, **facts}))


def _event_as_dict(event: Event) -> dict[str, Any]:
    if isinstance(event, Note):
        return {"text": event.text}
    facts: dict[str, Any] = {"cell": event.cell.id, "name": str(event.cell)}
    match event:
        case Started():
            return {**facts, "where": event.where}
        case Progress():
            return {**facts, "round": event.round, "accuracy": event.accuracy}
        case Interrupted():
            return {**facts, "reason": event.reason}
        case Finished():
            record = event.record
            declared = [
                metric.name for metric in event.cell.measure.metrics if metric.headline or metric.kind == "flag"
            ]
            metrics = {name: record.metrics[name] for name in declared if name in record.metrics}
            failure = {"reason": record.reason, **record.facts} if record.status == "failed" else {}
            took = record.seconds.get("total")
            return {**facts, "status": record.status, "metrics": metrics, **failure, "took": took}


def _cell_counts(now: RunStatus) -> dict[str, Any]:
    return {
        "cells": now.cells,
        "done": now.before + now.done,
        "failed": len(now.failed),
        "running": len(now.running),
        "waiting": now.waiting,
        "per_minute": round(now.per_minute, 2),
        "left": now.left,
    }


def write_text_to_stderr(text: str) -> None:
    """Write a text to standard error; on a terminal, lines are wrapped between words."""
    write_line_to_stderr(wrap_lines(text, get_terminal_size().columns) if sys.stderr.isatty() else text)


def write_line_to_stderr(text: str) -> None:
    """Write a line to standard error."""
    print(replace_control_characters(text), file=_TolerantStream(sys.stderr), flush=True)


class _TolerantStream:
    """Stream that ignores a reader that went away, such as a closed terminal, so that the run continues."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def event_text(event: Finished | Interrupted | Note) -> str:
    """Return an event as a line of text."""
    match event:
        case Note():
            return event.text
        case Interrupted():
            return f"{event.cell}: {event.reason}"
        case Finished():
            return f"{event.cell}: {cell_outcome_text(event)}"


def cell_outcome_text(event: Finished) -> str:
    """Return the outcome of a cell in a few words."""
    record = event.record
    if record.status == "failed":
        return f"failed: {record.reason}"
    metrics = event.cell.measure.metrics
    if raised := [metric.title for metric in metrics if metric.kind == "flag" and record.metrics.get(metric.name)]:
        return ", ".join(raised)
    took = f"in {record.seconds['total']:.1f} s"
    for metric in metrics:
        if metric.headline and isinstance(value := record.metrics.get(metric.name), int | float):
            unit = metric.unit if metric.unit == "%" else f" {metric.unit}".rstrip()
            return f"{metric.title} {metric.factor * value:.{metric.digits}f}{unit} {took}"
    return f"done {took}"
