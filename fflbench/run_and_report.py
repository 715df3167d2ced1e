"""Commands `fflbench run` and `fflbench status`: run a suite, make its tables, and show the status of runs."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from fflbench.errors import RecordError
from fflbench.execution import run as running
from fflbench.execution import status as run_status
from fflbench.execution.display import write_json, write_line
from fflbench.execution.estimates import memory_of
from fflbench.execution.run import Options, Plan
from fflbench.execution.status import RunStatus
from fflbench.execution.units import duration, readable_bytes
from fflbench.progress import quiet
from fflbench.records.store import Store, load, write_whole
from fflbench.report import run_report
from fflbench.report.board import board
from fflbench.report.table import Board
from fflbench.terminal import console
from fflbench.texts import counted


def run(
    suite: str,
    options: Options,
    *,
    out: Path,
    seeds: Sequence[int] | None,
    settings: Sequence[str],
    dry_run: bool,
    force: bool,
) -> None:
    """Plan and run a suite, show its tables, and exit with a code for the outcome."""
    voice = Voice(options.log_json)
    if options.log_json:
        warnings.showwarning = lambda message, *_, **__: voice.say("note", str(message))
    with quiet() if options.log_json else nullcontext():
        start = time.monotonic()
        planned = running.prepare(
            suite,
            out=out,
            seeds=seeds,
            settings=settings,
            plugins=options.plugins,
            force=force,
            device=options.device_here,
        )
        cells, todo = len(planned.cells), len(planned.open)
        text = f"{planned.suite}: {counted(cells, 'cell')}, {cells - todo} done already, {todo} to run"
        voice.say("plan", text, suite=planned.suite, cells=cells, done=cells - todo)
        if planned.changes:
            voice.say("changed", planned.changes, cells=len(planned.outdated))
        if dry_run:
            _show_plan(planned, options.workers, voice)
            return
        finished = 0

        def hear(_: object) -> None:
            nonlocal finished
            finished += 1

        try:
            with planned.store.writing():
                records = running.carry_out(planned, options, hear)
                tables = board(planned.suite, records)
                if not planned.one_record:
                    made = run_report.files(tables, records, planned.store.arrays)
                    for name, content in made.items():
                        write_whole(planned.store.folder / name, content)
            _show(tables, planned.store.folder, voice)
        except KeyboardInterrupt:
            how = "the same command without --force" if force else "the same command"
            text = f"stopped: {finished} of {todo} cells are finished and kept; {how} goes on with the rest"
            voice.say("stopped", text, finished=finished)
            raise typer.Exit(130) from None
        seconds, folder = time.monotonic() - start, planned.store.folder
        where = "its record is" if planned.one_record else "records and tables are"
        text = f"{counted(todo, 'cell')} run in {seconds:.0f} s; {where} in {folder}"
        failed = [record for record in records if record.status == "failed"]
        voice.say("end", text, seconds=seconds, folder=str(folder), failed=len(failed))
        for record in failed:
            command = record.facts["run_alone"]
            text = f"failed: {record}: {record.reason}\n  alone: {command}"
            voice.say("failed", text, cell=record.id, reason=record.reason, command=command)
        if failed:
            raise typer.Exit(1)


@dataclass
class Voice:
    """Messages on standard error, as text or JSON."""

    as_json: bool

    def say(self, event: str, text: str, **facts: object) -> None:
        """Write one line to standard error."""
        if self.as_json:
            write_json(event, text=text, **facts)
        else:
            write_line(text)


def _show(tables: Board, folder: Path, voice: Voice) -> None:
    """Print the tables, or note that standard output cannot be written."""
    try:
        run_report.show(tables, console(width=None if sys.stdout.isatty() else 160))
    except BrokenPipeError:
        raise
    except OSError as error:
        voice.say("note", f"the tables cannot be shown: {error.strerror}; they are in {folder}")


def _show_plan(planned: Plan, workers: int | None, voice: Voice) -> None:
    for cell in planned.cells:
        typer.echo(f"{cell.id}  {cell}  {'done' if cell.id in planned.done else 'to run'}")
    if planned.open:
        seconds = running.estimate(planned, workers)
        needs = max(memory_of(planned.open))
        time_text = f"the cells to run take about {duration(seconds)} here, by a short calibration, and "
        voice.say("estimate", f"{time_text}up to {readable_bytes(needs)} of memory each", seconds=seconds, bytes=needs)


def status(folder: Path, *, as_json: bool, say: Callable[[str], None] = typer.echo) -> None:
    """Show the status of the runs in a folder."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}")
    places = sorted({file.parent for file in folder.rglob(run_status.FILE)})
    # The lock is checked first: a run that ends in between has then written its final status.
    runs = [(place, Store(place).in_use, run_status.read(place)) for place in places]
    if not any(now for _, _, now in runs):
        count = len(load(folder))
        what = (
            f"{counted(count, 'record')}, and no status of the run that made them" if count else "no run and no record"
        )
        raise RecordError(f"{folder} holds {what}")
    for place, in_use, now in runs:
        if now is None:
            # Removed meanwhile, or a broken link.
            continue
        if now.state in ("starting", "running", "stopping") and not in_use:
            now = now.model_copy(update={"state": "lost", "running": [], "left": None})
        say(json.dumps(now.model_dump()) if as_json else _status_text(place, now))


def _status_text(folder: Path, now: RunStatus) -> str:
    """Return the status of a run as text."""
    ended = now.before + now.done
    so_far = f"{duration(now.seconds)} so far, process {now.process} on {now.host}"
    states = {
        "starting": f"starting, process {now.process} on {now.host}",
        "running": f"running, {so_far}",
        "stopping": f"stopping, {so_far}",
        "stopped": f"stopped; to go on: {now.command}",
        "finished": f"finished in {duration(now.seconds)}",
        "lost": f"ended without a word; what is finished is kept; to go on: {now.command}",
    }
    lines = [f"{folder}: {states[now.state]}"]
    counts = f"{ended} of {now.cells} done ({now.before} before this run), {len(now.running)} running"
    lines.append(f"  cells    {counts}, {len(now.failed)} failed, {now.waiting} waiting")
    if now.state in ("running", "stopping"):
        left = f", about {duration(now.left)} left" if now.left else ""
        lines.append(f"  pace     {now.per_minute:.1f} cells a minute{left}")
    for each in now.running:
        accuracy = "" if each.accuracy is None else f", accuracy {each.accuracy:.1%}"
        lines.append(f"  running  {each.name}: round {each.round} of {each.rounds}{accuracy}, {each.where}")
    for failure in now.failed:
        lines.append(f"  failed   {failure.name}: {failure.reason}\n           alone: {failure.command}")
    return "\n".join(lines)
