"""What `fflbench run` says and does."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from fflbench.execution import memory
from fflbench.execution import run as running
from fflbench.execution.run import Plan
from fflbench.records.store import write_whole
from fflbench.report import contents


def run(
    suite: str,
    *,
    out: Path,
    seeds: Sequence[int] | None,
    settings: Sequence[str],
    workers: int | None,
    device: str,
    plugins: Sequence[str],
    dry_run: bool,
    force: bool,
    memory_limit: str | None = None,
) -> None:
    """Plan, run, show the tables, and say how it went by the exit code."""
    start = time.monotonic()
    limit = None if memory_limit is None else memory.parse(memory_limit)
    planned = running.prepare(
        suite, out=out, seeds=seeds, settings=settings, plugins=plugins, force=force, device=device
    )
    cells, todo = len(planned.cells), len(planned.open)
    _say(f"{planned.suite}: {_count(cells, 'cell')}, {cells - todo} done already, {todo} to run")
    if dry_run:
        _show_plan(planned, workers)
        return
    finished = 0

    def hear(_: object) -> None:
        nonlocal finished
        finished += 1

    try:
        records = running.carry_out(
            planned, workers=workers, device=device, plugins=plugins, hear=hear, memory_limit=limit
        )
    except KeyboardInterrupt:
        how = "the same command without --force" if force else "the same command"
        _say(f"stopped: {finished} of {todo} cells are finished and kept; {how} goes on with the rest")
        raise typer.Exit(130) from None
    contents.show(records, Console(width=None if sys.stdout.isatty() else 160))
    if not planned.one_record:
        with planned.store.writing():
            made = contents.files(planned.title or planned.suite, records, planned.store.arrays)
            for name, content in made.items():
                write_whole(planned.store.folder / name, content)
    seconds = time.monotonic() - start
    _say(f"{_count(todo, 'cell')} run in {seconds:.0f} s; records and tables are in {planned.store.folder}")
    failed = [record for record in records if record.status == "failed"]
    for record in failed:
        _say(f"failed: {record}: {record.reason} (fflbench show {planned.store.file(record.id)})")
    if failed:
        raise typer.Exit(1)


def _show_plan(planned: Plan, workers: int | None) -> None:
    for cell in planned.cells:
        typer.echo(f"{cell.id}  {cell}  {'done' if cell.id in planned.done else 'to run'}")
    if planned.open:
        seconds = running.estimate(planned, workers)
        _say(f"the cells to run take about {_duration(seconds)}, by a short calibration")


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a few seconds" if seconds < 10 else f"{seconds:.0f} seconds"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say(text: str) -> None:
    typer.echo(text, err=True)
