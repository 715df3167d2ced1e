"""Commands `fflbench run` and `fflbench status`: run a suite, make its tables, and show the status of runs."""

import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from fflbench.errors import RecordError
from fflbench.execution import run_status
from fflbench.execution import run_suite as running
from fflbench.execution.cells_to_run import RunPlan, plan_run
from fflbench.execution.durations_and_sizes import format_bytes, format_duration
from fflbench.execution.estimates import estimate_memory
from fflbench.execution.progress_display import write_json_event, write_text_to_stderr
from fflbench.execution.run_options import Options
from fflbench.execution.run_status import RunStatus
from fflbench.progress import no_progress
from fflbench.records.record import Record
from fflbench.records.store import Store, read_all_records, write_atomically
from fflbench.report import run_report
from fflbench.report.all_tables import build_board
from fflbench.report.table_model import Board
from fflbench.safe_texts import count_with_noun
from fflbench.terminal import console


def run_and_print_tables(
    suite: str,
    options: Options,
    *,
    out: Path,
    seeds: Sequence[int] | None,
    settings: Sequence[str],
    all_tables: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Plan and run a suite, show its summary or all tables, and exit with a code for the outcome."""
    log = Log(options.log_json)
    if options.log_json:
        warnings.showwarning = lambda message, *_, **__: log.write("note", str(message))
    with no_progress() if options.log_json else nullcontext():
        start = time.monotonic()
        planned = plan_run(suite, options, out=out, seeds=seeds, settings=settings, force=force)
        log_plan(planned, log)
        if dry_run:
            print_plan(planned, options.workers, options.device, log)
            return
        with stopped_run_reported(planned, log) as count:
            with planned.store.locked():
                records = running.run_planned_cells(planned, options, count)
                board = build_board(planned.suite, records)
                if not planned.one_record:
                    files = run_report.report_files(board, records, planned.store.arrays)
                    for name, content in files.items():
                        write_atomically(planned.store.folder / name, content)
            shown = board if all_tables else board.summary
            print_tables(shown, planned.store.folder, log)
        failed = [record for record in records if record.status == "failed"]
        log_failures(failed, log)
        seconds = time.monotonic() - start
        hidden = len(board.tables) - len(shown.tables)
        text = f"{count_with_noun(len(planned.to_run), 'cell')} run in {seconds:.0f} s; {_places(planned, hidden)}"
        text += "" if planned.one_record else f"\nnext:\n  {_leaderboard_command(planned, options.plugins)}"
        log.write("end", text, seconds=seconds, folder=str(planned.store.folder), failed=len(failed))
        if failed:
            raise typer.Exit(1)


@dataclass
class Log:
    """Messages on standard error, as text or JSON."""

    as_json: bool

    def write(self, event: str, text: str, **facts: object) -> None:
        """Write an event to standard error."""
        if self.as_json:
            write_json_event(event, text=text, **facts)
        else:
            write_text_to_stderr(text)


def log_plan(planned: RunPlan, log: Log) -> None:
    """Report how many cells there are and how many are done, and changes of code since."""
    cells, todo = len(planned.cells), len(planned.to_run)
    text = f"{planned.suite}: {count_with_noun(cells, 'cell')}, {cells - todo} done already, {todo} to run"
    log.write("plan", text, suite=planned.suite, cells=cells, done=cells - todo)
    if planned.changes:
        log.write("changed", planned.changes, cells=len(planned.outdated))


@contextmanager
def stopped_run_reported(planned: RunPlan, log: Log) -> Iterator[Callable[[object], None]]:
    """Report a run that the user stops, and exit; yield a function to be called for every finished cell."""
    finished = 0

    def count(_: object) -> None:
        nonlocal finished
        finished += 1

    try:
        yield count
    except KeyboardInterrupt:
        command = "the same command without --force" if planned.force else "the same command"
        of = f"{finished} of {len(planned.to_run)} cells are finished and kept"
        log.write("stopped", f"stopped: {of}; {command} runs the rest", finished=finished)
        raise typer.Exit(130) from None


def log_failures(failed: Sequence[Record], log: Log) -> None:
    """Report failed cells, with the command that runs each alone."""
    for record in failed:
        command = record.facts["run_alone"]
        text = f"failed: {record}: {record.reason}\n  alone: {command}"
        log.write("failed", text, cell=record.id, reason=record.reason, command=command)


def _places(planned: RunPlan, hidden: int) -> str:
    """Return where the records and tables of a run are, and how to see those that were not printed."""
    folder = planned.store.folder
    where = "its record is" if planned.one_record else "records are"
    tables = "" if planned.one_record else f", all tables in {folder / run_report.PAGE}"
    more = f" (--tables all prints {hidden} more)" if hidden else ""
    return f"{where} in {folder}{tables}{more}"


def _leaderboard_command(planned: RunPlan, plugins: Sequence[str]) -> str:
    named = [word for plugin in plugins for word in ("--plugin", plugin)]
    return shlex.join(["fflbench", "leaderboard", str(planned.store.folder), *named])


def print_tables(tables: Board, folder: Path, log: Log) -> None:
    """Print the tables, or note that standard output cannot be written."""
    try:
        run_report.print_report(tables, console(width=None if sys.stdout.isatty() else 160))
    except BrokenPipeError:
        raise
    except OSError as error:
        log.write("note", f"the tables cannot be shown: {error.strerror}; they are in {folder}")


def print_plan(planned: RunPlan, workers: int | None, device: str, log: Log) -> None:
    """Print the cells of a plan, and an estimate of their time and memory."""
    for cell in planned.cells:
        typer.echo(f"{cell.id}  {cell}  {'done' if cell.id in planned.done else 'to run'}")
    if planned.to_run:
        seconds = running.estimate_run_seconds(planned, workers, device)
        needs = max(estimate_memory(planned.to_run))
        time_text = f"the cells to run take about {format_duration(seconds)} here, by a short calibration, and "
        log.write("estimate", f"{time_text}up to {format_bytes(needs)} of memory each", seconds=seconds, bytes=needs)


def print_status(folder: Path, *, as_json: bool, write: Callable[[str], None] = typer.echo) -> None:
    """Show the status of the runs in a folder."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}")
    folders = sorted({file.parent for file in folder.rglob(run_status.FILE)})
    # The lock is checked first: a run that ends in between has then written its final status.
    runs = [(each, Store(each).in_use, run_status.read_run_status(each)) for each in folders]
    if not any(now for _, _, now in runs):
        count = sum(1 for _ in read_all_records(folder))
        what = f"{count_with_noun(count, 'record')}, but no status of a run" if count else "no run and no record"
        raise RecordError(f"{folder} holds {what}")
    for each, in_use, now in runs:
        if now is None:
            # Removed meanwhile, or a broken link.
            continue
        if now.state in ("starting", "running", "stopping") and not in_use:
            now = now.model_copy(update={"state": "lost", "running": [], "left": None})
        write(json.dumps(now.model_dump()) if as_json else _format_status(each, now))


def _format_status(folder: Path, now: RunStatus) -> str:
    """Return the status of a run as text."""
    ended = now.before + now.done
    so_far = f"{format_duration(now.seconds)} so far, process {now.process} on {now.host}"
    states = {
        "starting": f"starting, process {now.process} on {now.host}",
        "running": f"running, {so_far}",
        "stopping": f"stopping, {so_far}",
        "stopped": f"stopped; to resume: {now.command}",
        "finished": f"finished in {format_duration(now.seconds)}",
        "lost": f"ended unexpectedly; finished cells are kept; to resume: {now.command}",
    }
    lines = [f"{folder}: {states[now.state]}"]
    counts = f"{ended} of {now.cells} done ({now.before} before this run), {len(now.running)} running"
    lines.append(f"  cells    {counts}, {len(now.failed)} failed, {now.waiting} waiting")
    if now.state in ("running", "stopping"):
        left = f", about {format_duration(now.left)} left" if now.left else ""
        lines.append(f"  pace     {now.per_minute:.1f} cells per minute{left}")
    for each in now.running:
        accuracy = "" if each.accuracy is None else f", accuracy {each.accuracy:.1%}"
        lines.append(f"  running  {each.name}: round {each.round} of {each.rounds}{accuracy}, {each.where}")
    for failure in now.failed:
        lines.append(f"  failed   {failure.name}: {failure.reason}\n           alone: {failure.command}")
    return "\n".join(lines)
