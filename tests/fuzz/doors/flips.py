"""Single-bit flips of checkpoints, records and arrays: never another figure."""

import functools
import json
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import FLIPS, door
from tests.fuzz.mutation import flip_bit

SUITE = """
tasks = ["digits-mlp"]
attacks = ["label-flipping"]
defenses = ["foolsgold"]
seeds = [0]
overrides = {rounds = 4, participants = 6, per_round = 4}
"""
"""One small cell whose defense has a memory."""


@dataclass
class _MemoryCheckpoint:
    """A checkpoint in memory."""

    content: bytes = b""

    def read_checkpoint(self) -> bytes:
        return self.content

    def write_checkpoint(self, content: bytes) -> None:
        self.content = content


@dataclass(frozen=True)
class _InterruptedCell:
    """A cell, its result when nothing disturbs it, a checkpoint from the middle of it, and the state in that."""

    cell: Any
    result: dict[str, Any]
    checkpoint: bytes
    state: Any


@functools.cache
def _run_and_interrupt_cell() -> _InterruptedCell:
    from fflbench.execution.run_cell import StoppedError, run_cell
    from fflbench.suites.plan import plan
    from fflbench.suites.suite import parse

    cell = plan(parse(tomllib.loads(SUITE), "flips", "flips.toml"))[0]
    place, rounds = _MemoryCheckpoint(), 0

    def stopping() -> bool:
        nonlocal rounds
        rounds += 1
        return rounds == 2

    with suppress(StoppedError):
        run_cell(cell, "flips", checkpoint=place, stopping=stopping)
    (state,) = _restored_states(cell, place)
    result = run_cell(cell, "flips").reproducible_content()
    assert run_cell(cell, "flips", checkpoint=_MemoryCheckpoint(place.content)).reproducible_content() == result
    return _InterruptedCell(cell, result, place.content, state)


def _restored_states(cell: Any, place: _MemoryCheckpoint) -> list[Any]:
    """States that a cell resumes from, at most one; no round of it is run."""
    from fflbench.execution.run_cell import StoppedError, run_cell
    from fflbench.federation.rounds import Federation

    def stop(*_: Any) -> None:
        raise StoppedError(saved=False)

    with mock.patch.object(Federation, "restore") as restore, mock.patch.object(Federation, "run", stop):
        try:
            failed = run_cell(cell, "flips", checkpoint=place)
        except StoppedError:
            return [call.args[0] for call in restore.call_args_list]
    raise AssertionError(failed.error)


def _states_equal(one: Any, other: Any) -> bool:
    """Whether two states hold the same arrays and facts."""
    if one.facts != other.facts or one.arrays.keys() != other.arrays.keys():
        return False
    pairs = [(one.arrays[name], other.arrays[name]) for name in one.arrays]
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


@door("checkpoint-flips", share=4, campaign=FLIPS, prepare=_run_and_interrupt_cell)
def checkpoint_flips(case: Case) -> None:
    """A checkpoint with one bit flipped: restored exactly, or not at all; every fiftieth cell runs to its end."""
    from fflbench.execution.run_cell import run_cell

    played = _run_and_interrupt_cell()
    damaged = _MemoryCheckpoint(flip_bit(played.checkpoint, case.rng.randrange(8 * len(played.checkpoint))))
    if case.number % 50 == 0:
        record = case.call(run_cell, played.cell, "flips", checkpoint=damaged)
        case.require(record.status == "done", "a damaged checkpoint makes a cell fail", detail=record.error)
        case.require(record.reproducible_content() == played.result, "a damaged checkpoint changes a result")
        return
    states = case.call(_restored_states, played.cell, damaged)
    case.outcome = 0 if states else 2
    case.require(all(_states_equal(state, played.state) for state in states), "a damaged checkpoint is restored")


@door("record-flips", share=4, campaign=FLIPS, prepare=fixtures.make_records)
def record_flips(case: Case) -> None:
    """A record of a run with one bit flipped: refused, or with the same result."""
    from fflbench.records.store import read_record

    record = case.rng.choice(fixtures.make_records())
    bit = case.rng.randrange(8 * len(record.text))
    file = case.folder / f"{record.id}.json"
    file.write_bytes(flip_bit(record.text, bit))
    if found := case.call(read_record, file):
        file.write_bytes(record.text)
        was, now = read_record(file).reproducible_content(), found.reproducible_content()
        around = record.text[max(0, bit // 8 - 40) : bit // 8 + 40].decode(errors="replace")
        differs = [part for part in was if json.dumps(was[part]) != json.dumps(now[part])]
        case.require(not differs, "a flipped bit changes a record", ", ".join(differs), around)


@functools.cache
def _leaderboard_files() -> dict[str, bytes]:
    """The packed records of a leaderboard and their arrays, by file."""
    parts = ("small/records.jsonl.xz", "small/arrays/")
    return {name: content for name, content in fixtures.make_leaderboard_files().items() if name.startswith(parts)}


@door("board-flips", share=1, campaign=FLIPS, prepare=_leaderboard_files)
def board_flips(case: Case) -> None:
    """A leaderboard with one bit flipped in its packed records or arrays: what is damaged is named and left out."""
    from fflbench.records.collection import read_collection

    files = _leaderboard_files()
    chosen = case.rng.choice(list(files))
    for name, content in files.items():
        case.write(name, content)
    was = {
        record.id: json.dumps(record.reproducible_content())
        for record in read_collection(case.folder / "small").records
    }
    case.write(chosen, flip_bit(files[chosen], case.rng.randrange(8 * len(files[chosen]))))
    if found := case.call(read_collection, case.folder / "small"):
        now = {record.id: json.dumps(record.reproducible_content()) for record in found.records}
        case.outcome = 1 if found.problems else 0
        case.require(now.items() <= was.items(), "a flipped bit changes a leaderboard", chosen[-8:])
        case.require(now == was or bool(found.problems), "a record is left out of a leaderboard unnamed", chosen[-8:])


@door("array-flips", share=2, campaign=FLIPS, prepare=fixtures.make_records)
def array_flips(case: Case) -> None:
    """Arrays beside a record with one bit flipped: refused, or the same."""
    from fflbench.records.store import Store, read_record

    owner = case.rng.choice([record for record in fixtures.make_records() if record.packed])
    owner.write(case.folder)
    store = Store(case.folder)
    record = read_record(store.record_file(owner.id))
    was = store.arrays(record)
    store.arrays_file(owner.id).write_bytes(flip_bit(owner.packed, case.rng.randrange(8 * len(owner.packed))))
    found = case.call(store.arrays, record)
    if found is not None:
        same = found.keys() == was.keys() and all(np.array_equal(found[name], was[name]) for name in was)
        case.require(same, "a flipped bit changes arrays")
