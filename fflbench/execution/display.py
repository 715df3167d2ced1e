"""What people see while cells run: bars on a terminal, plain lines in a log."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from fflbench.execution.local import Finished, Progress

if TYPE_CHECKING:
    from rich import progress


class Display(Protocol):
    """Hears of everything that happens."""

    def hear(self, event: Progress | Finished) -> None:
        """Show it."""


@contextmanager
def display(total: int, rounds: dict[str, int], workers: int) -> Iterator[Display]:
    """A display for so many cells; `rounds` tells how many each cell plays."""
    if not sys.stderr.isatty():
        yield _Lines(total)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bars(bars, total, rounds, workers)


class _Lines:
    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0

    def hear(self, event: Progress | Finished) -> None:
        if isinstance(event, Finished):
            self.done += 1
            print(f"[{self.done}/{self.total}] {event.cell}: {verdict(event)}", file=sys.stderr, flush=True)  # noqa: T201


class _Bars:
    def __init__(self, bars: "progress.Progress", total: int, rounds: dict[str, int], workers: int) -> None:
        self.bars, self.rounds, self.failed = bars, rounds, 0
        self.all = bars.add_task("cells", total=total, said="")
        self.each = [bars.add_task("", total=1, said="", visible=False) for _ in range(workers)]

    def hear(self, event: Progress | Finished) -> None:
        bar = self.each[event.worker]
        if isinstance(event, Finished):
            self.failed += event.record.status == "failed"
            self.bars.update(self.all, advance=1, said=f"{self.failed} failed" if self.failed else "")
            self.bars.update(bar, visible=False)
            return
        said = "" if event.accuracy is None else f"accuracy {event.accuracy:.1%}"
        if event.round == 1:
            self.bars.reset(bar)
        total = self.rounds[event.cell.id]
        self.bars.update(
            bar, description=f"  {event.cell}", completed=event.round, total=total, said=said, visible=True
        )


def verdict(event: Finished) -> str:
    """How a cell ended, in a few words."""
    record = event.record
    if record.status == "failed":
        return f"failed: {record.reason}"
    if record.metrics.get("diverged"):
        return "diverged"
    took = f"in {record.seconds['total']:.1f} s"
    return f"accuracy {record.metrics['accuracy']:.1%} {took}" if "accuracy" in record.metrics else f"done {took}"
