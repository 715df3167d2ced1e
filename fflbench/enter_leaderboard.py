"""Command `fflbench enter`: run a leaderboard's cells for one more defense, and add its row."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from fflbench import registry
from fflbench.errors import FflbenchError, RecordError
from fflbench.execution.cells_to_run import RunPlan, check_options, with_finished_cells
from fflbench.execution.run_options import Options
from fflbench.execution.run_suite import run_planned_cells
from fflbench.federation import chain
from fflbench.records import jsonl_file
from fflbench.records.cell_configuration import CHAIN
from fflbench.records.collection import (
    ENTRY,
    SUBMITTED,
    LeaderboardEntry,
    RecordCollection,
    RecordLocation,
    defense_labels,
    entry_subfolder,
    pack_own_records,
    read_collection,
)
from fflbench.records.file_replacement import replace_files
from fflbench.records.record import Record
from fflbench.records.store import Store
from fflbench.registry import CHAINED, Entry, Kind
from fflbench.report import leaderboard
from fflbench.report.table_model import OVERALL, Board
from fflbench.run_and_report import Log, log_failures, log_plan, print_plan, print_tables, stopped_run_reported
from fflbench.safe_texts import count_with_noun, slug
from fflbench.suites.cell import Cell
from fflbench.suites.plan_entry import NewDefense, plan_entry
from fflbench.untrusted_files import read_json

ENTERED = "entry"
"""Folder of the entry in the folder of results."""


@dataclass(frozen=True)
class EntryRequest:
    """Defense that a user wants to enter, and the leaderboard."""

    file: str
    board: str = "quick"
    defense: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    link: str = ""
    citation: str | None = None
    out: Path | None = None


def enter(request: EntryRequest, options: Options, *, dry_run: bool = False) -> None:
    """Run the cells that a new row needs, add it to the leaderboard, and print it."""
    log, folder = Log(options.log_json), _find_board(request.board)
    if not request.file.endswith(".py"):
        raise FflbenchError(f"{request.file} is no Python file: name the file with your defense, as in my_defense.py")
    check_options(options)
    registered = _registered_defenses(request.file)
    chosen = _choose_chain(request.file, registered, request.defense)
    defense = NewDefense(request.name or chosen, chosen, request.parameters)
    citation = registered[0].citation if request.citation is None else request.citation
    entry = _describe_entry(defense.label, request.link, citation)
    board = read_collection(folder)
    _refuse_taken_name(board, entry)
    own = [record for record in board.records if record.id not in board.reported]
    plan = plan_entry(str(folder), own, defense)
    shared = _shared_records(board, plan.cells, defense.label)
    out = request.out or Path("results") / f"enter-{slug(folder.resolve().name)}-{slug(defense.label)}"
    cells = [cell for cell in plan.cells if cell.id not in shared]
    planned = with_finished_cells(RunPlan(board.suite, own[0].title, Store(out / SUBMITTED), cells))
    log_plan(planned, log)
    if shared:
        log.write("shared", f"{count_with_noun(len(shared), 'cell')} shared with defenses of the same transport")
    for reason in plan.left_out:
        log.write("note", f"left out: {reason}")
    if dry_run:
        print_plan(planned, options.workers, options.device, log)
        return
    with stopped_run_reported(planned, log) as count:
        records = run_planned_cells(planned, options, count)
    failed = [record for record in records if record.status == "failed"]
    log_failures(failed, log)
    if failed:
        text = f"{count_with_noun(len(failed), 'cell')} failed, so that its row would be incomplete: nothing was added"
        log.write("end", f"{text}; the same command runs what is missing")
        raise typer.Exit(1)
    made = _write_entry(out / ENTERED, entry, planned.store, records, board, list(shared.values()))
    # Without the plugin, as everybody else makes the leaderboard again.
    with registry.without_plugins(options.plugins):
        _add_to_board(folder, made, defense.label, log)


def _find_board(name: str) -> Path:
    """Return the folder of a leaderboard, by its path or by its name in ./leaderboards."""
    places = [Path(name), leaderboard.BOARDS / name]
    found = next((place for place in places if name and jsonl_file.has_records_file(place)), None)
    if found is None:
        there = sorted(file.parent.name for file in leaderboard.BOARDS.glob(f"[!.]*/{jsonl_file.FILE}"))
        named = f", or the name of one in {leaderboard.BOARDS}: {', '.join(there)}" if there else ""
        raise RecordError(f'there is no leaderboard "{name}": give the folder of one{named}')
    return found


def _registered_defenses(file: str) -> list[Entry]:
    """Return the defenses and parts of defenses that a file registers, at least one."""
    registered = [entry for entry in registry.entries_of_file(Path(file)) if entry.kind in CHAINED]
    if not registered:
        raise FflbenchError(
            f"{file} registers no defense: it needs a rule, a chain, a pre-aggregation or a transport, "
            "as docs/extend.md shows"
        )
    return registered


def _choose_chain(file: str, registered: Sequence[Entry], named: str | None) -> str:
    """Return the chain to enter: the one that was named, or the only one that uses all that the file registers."""
    names = {entry.name for entry in registered}
    listed = ", ".join(map(str, registered))
    if named is not None:
        if not names & _names_in_chain(named):
            raise FflbenchError(f'--defense "{named}" uses nothing that {file} registers ({listed})')
        return named
    alone = [entry.name for entry in registered if entry.kind in (Kind.RULE, Kind.DEFENSE)]
    whole = [name for name in alone if names <= _names_in_chain(name)]
    if len(whole) == 1:
        return whole[0]
    if alone:
        raise FflbenchError(
            f"{file} registers {listed}: name the one to enter, as in --defense {shlex.quote(alone[0])}"
        )
    raise FflbenchError(
        f'{file} registers {listed}, which needs a chain: name one, as in --defense "{registered[0].name} + median"'
    )


def _names_in_chain(text: str) -> set[str]:
    """Return the names that a chain is written with, and those of its parts."""
    return {name.strip() for name in text.split("+")} | {entry.name for entry in chain.parse(text).entries}


def _describe_entry(name: str, link: str, citation: str) -> LeaderboardEntry:
    try:
        return LeaderboardEntry(name=name, link=link, citation=citation[:500])
    except ValidationError as error:
        raise FflbenchError(
            "the entry cannot be described: --name takes letters, digits, spaces, hyphens, dots and plus signs, --link "
            "an address that begins with https://"
        ) from error


def _refuse_taken_name(board: RecordCollection, entry: LeaderboardEntry) -> None:
    place = board.folder / entry_subfolder(entry.name)
    if (place / ENTRY).exists():
        raise FflbenchError(f"{place} holds an entry of that name: remove it to enter anew, or choose another --name")
    if entry.name in {label for record in board.displayed_records for label in defense_labels(record)}:
        raise FflbenchError(f'{board.folder} has a row "{entry.name}" already: choose another --name')


def _shared_records(board: RecordCollection, cells: Sequence[Cell], label: str) -> dict[str, Record]:
    """Return the leaderboard's records that the new defense shares, under its label, as of one transport.

    A chain that is there as a whole is refused.
    """
    there, shared = {record.id: record for record in board.records}, {}
    for cell in (cell for cell in cells if cell.id in there):
        record = there[cell.id]
        if set(cell.configuration["defense"]) == set(CHAIN):
            raise FflbenchError(f'{board.folder} has this defense already, as "{record.labels["defense"]}"')
        labels = {"labels": dict(cell.labels), "sweep": dict(cell.sweep), "shared_by": {}}
        shared[cell.id] = record.model_copy(update=labels)
    return shared


def _write_entry(
    folder: Path,
    entry: LeaderboardEntry,
    store: Store,
    records: Sequence[Record],
    board: RecordCollection,
    shared: Sequence[Record],
) -> Path:
    """Write the folder of an entry as `fflbench leaderboard --add` takes it, and return it."""
    places = {record.id: board.places[record.id] for record in shared} | {
        record.id: RecordLocation(store.folder, str(store.record_file(record.id)), store.arrays_file(record.id))
        for record in records
    }
    every = RecordCollection(folder, [*records, *shared], places=places)
    described = (entry.model_dump_json(indent=1, exclude_defaults=True) + "\n").encode()
    replace_files(folder, pack_own_records(every, folder) | {ENTRY: described})
    return folder


def _add_to_board(folder: Path, entry: Path, label: str, log: Log) -> None:
    """Add an entry to a leaderboard and print its row; an entry that cannot be added is kept."""
    try:
        target, collection = leaderboard.generate(folder, None, new_entry=entry)
    except RecordError as error:
        command = shlex.join(["fflbench", "leaderboard", str(folder), "--add", str(entry)])
        raise RecordError(f"{error}; the entry is kept: {command} adds it") from error
    board = Board.model_validate(read_json(target / leaderboard.TABLES / leaderboard.DATA, leaderboard.LARGEST))
    joined = [table for table in board.tables if table.section == OVERALL]
    rows = [
        table.model_copy(update={"rows": tuple(row for row in table.rows if row.defense == label)})
        for table in joined or board.tables
    ]
    shown = board.model_copy(update={"tables": tuple(table for table in rows if table.rows), "flags": ()})
    print_tables(shown, target, log)
    for problem in collection.problems:
        log.write("problem", problem)
    where = f"{target / leaderboard.PAGE} and {target / leaderboard.WEB}"
    log.write("end", f'"{label}" is added, as reported: {where}; its entry, to send to others, is {entry}')
    if collection.problems:
        raise typer.Exit(1)
