"""What people see while cells run: bars on a terminal, lines in a log, JSON for machines; all on standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from fflbench.execution.jobs import Event, Finished, Note, Progress, Returned, Started
from fflbench.execution.standing import Standing
from fflbench.terminal import console, unguarded, visible

if TYPE_CHECKING:
    from rich import progress

PROGRESS_SECONDS = 1.0
"""How often machines are told of a cell's rounds."""


class Display(Protocol):
    """Hears of everything that happens."""

    def hear(self, event: Event | None, now: Standing) -> None:
        """Show it, and where the run stands since."""


@contextmanager
def display(*, as_json: bool = False) -> Iterator[Display]:
    """A display for a run, whoever executes it."""
    if as_json or not sys.stderr.isatty():
        yield _Json() if as_json else _Lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        TimeElapsedColumn(),
    )
    screen = console(cast(TextIO, _Patient(unguarded(sys.stderr))))
    with Progress(*columns, console=screen, transient=True) as bars:
        yield _Bars(bars, most=max(1, screen.height - 4))


class _Lines:
    def hear(self, event: Event | None, now: Standing) -> None:
        if isinstance(event, Finished):
            ended, total = now.done + len(now.failed), now.cells - now.before
            write_line(f"[{ended}/{total}] {event.cell}: {verdict(event)} ({now})")
        elif isinstance(event, Returned | Note):
            write_line(said(event))


class _Bars:
    """A bar for all cells, and one for each that is under way, as far as the screen goes."""

    def __init__(self, bars: "progress.Progress", most: int) -> None:
        self.bars, self.most = bars, most
        self.all = bars.add_task("cells", total=None, said="")
        self.each: dict[str, progress.TaskID] = {}

    def hear(self, event: Event | None, now: Standing) -> None:
        ended, total = now.done + len(now.failed), now.cells - now.before
        self.bars.update(self.all, completed=ended, total=total, said=str(now))
        if isinstance(event, Finished | Returned) and event.cell.id in self.each:
            self.bars.remove_task(self.each.pop(event.cell.id))
        if isinstance(event, Returned | Note) or (isinstance(event, Finished) and event.record.status == "failed"):
            self.bars.console.print(said(event), markup=False, highlight=False)
        for told in now.running[: self.most]:
            if told.cell not in self.each:
                if len(self.each) >= self.most:
                    break
                self.each[told.cell] = self.bars.add_task(f"  {told.name}", total=told.rounds, said=told.where)
        if isinstance(event, Progress) and event.cell.id in self.each:
            accuracy = "" if event.accuracy is None else f"accuracy {event.accuracy:.1%}"
            self.bars.update(self.each[event.cell.id], completed=event.round, said=accuracy)


class _Json:
    def __init__(self) -> None:
        self.told: dict[str, float] = {}

    def hear(self, event: Event | None, now: Standing) -> None:
        if event is None:
            return
        if isinstance(event, Progress):
            if now.seconds - self.told.get(event.cell.id, -PROGRESS_SECONDS) < PROGRESS_SECONDS:
                return
            self.told[event.cell.id] = now.seconds
        write_json(type(event).__name__.lower(), seconds=now.seconds, **_facts(event), **_counts(now))


def write_json(event: str, **facts: Any) -> None:
    """One line for machines."""
    write_line(json.dumps({"event": event, **facts}))


def _facts(event: Event) -> dict[str, Any]:
    if isinstance(event, Note):
        return {"text": event.text}
    facts: dict[str, Any] = {"cell": event.cell.id, "name": str(event.cell)}
    match event:
        case Started():
            return {**facts, "where": event.where}
        case Progress():
            return {**facts, "round": event.round, "accuracy": event.accuracy}
        case Returned():
            return {**facts, "why": event.why}
        case Finished():
            record = event.record
            declared = [
                metric.name for metric in event.cell.measure.metrics if metric.headline or metric.kind == "flag"
            ]
            found = {name: record.metrics[name] for name in declared if name in record.metrics}
            why = {"reason": record.reason, **record.facts} if record.status == "failed" else {}
            return {**facts, "status": record.status, **found, **why, "took": record.seconds.get("total")}


def _counts(now: Standing) -> dict[str, Any]:
    return {
        "cells": now.cells,
        "done": now.before + now.done,
        "failed": len(now.failed),
        "running": len(now.running),
        "waiting": now.waiting,
        "per_minute": round(now.per_minute, 2),
        "left": now.left,
    }


def write_line(text: str) -> None:
    """A line on standard error."""
    print(visible(text), file=_Patient(sys.stderr), flush=True)


class _Patient:
    """A stream whose reader may go away, as a terminal does that is closed: that is no reason to stop."""

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


def said(event: Finished | Returned | Note) -> str:
    """An event as a line of its own."""
    match event:
        case Note():
            return event.text
        case Returned():
            return f"{event.cell}: {event.why}"
        case Finished():
            return f"{event.cell}: {verdict(event)}"


def verdict(event: Finished) -> str:
    """How a cell ended, in a few words."""
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
