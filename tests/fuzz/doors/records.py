"""Records, their arrays and status files: as `show`, `run`, `status` and `leaderboard` read them."""

import io
import json
from random import Random
from typing import Any

import numpy as np

from tests.fuzz import fixtures
from tests.fuzz.case import Case, CommandResult
from tests.fuzz.door import door
from tests.fuzz.fixtures import RecordFiles
from tests.fuzz.mutation import alter_tree, damage_bytes, hostile_value, json_text, replace_file_by_other_kind
from tests.fuzz.outputs import check_outputs_harmless


def altered_record(rng: Random, record: RecordFiles, *, keep_id: bool = False) -> RecordFiles:
    """A record that was altered: mostly so that it still parses."""
    from fflbench.records.npz_file import arrays_digest
    from fflbench.records.record import cell_id

    if rng.random() < 0.15:
        return RecordFiles(record.id, record.measure, damage_bytes(rng, record.text), record.packed)
    tree = record.tree
    # Whoever alters a record can leave out what would give it away.
    tree.pop("digest", None)
    parts = ["metrics", "facts", "history", "labels", "configuration", "seconds", "manifest", ""]
    # The parts that tables are made of, more often than the rest.
    part = rng.choices(parts, (4, 6, 4, 2, 1 if keep_id else 6, 1, 2, 2))[0]
    if part:
        tree[part] = alter_tree(rng, tree[part])
    else:
        tree = alter_tree(rng, tree)
    packed = record.packed
    if packed and rng.random() < 0.5:
        packed = altered_arrays(rng, packed)
        if isinstance(tree, dict) and rng.random() < 0.8:
            tree["arrays"] = arrays_digest(packed)
    name = record.id
    if isinstance(tree, dict) and not keep_id and rng.random() < 0.9:
        try:
            name = tree["id"] = cell_id(tree["configuration"])
        except (KeyError, TypeError, ValueError, RecursionError):
            name = record.id
    return RecordFiles(name, record.measure, json_text(rng, tree), packed)


def altered_arrays(rng: Random, packed: bytes) -> bytes:
    """A file of arrays with others in it, or damaged."""
    kind = rng.random()
    if kind < 0.3:
        return damage_bytes(rng, packed)
    with np.load(io.BytesIO(packed)) as file:
        arrays: dict[str, Any] = dict(file)
    name = rng.choice(list(arrays))
    found = arrays[name]
    others = (
        found[:0],
        found[:1],
        found[..., :1],
        found.ravel(),
        found[None],
        found.astype(np.float16),
        found.astype(np.complex64),
        found.astype("U5"),
        np.full_like(found, np.nan) if found.dtype.kind == "f" else found,
        found * 1e30 if found.dtype.kind == "f" else found - 300,
        np.array(3.0),
        np.zeros((0, 0)),
        np.zeros((3, 10**6), np.uint8),
        np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]),
        np.array(["2020-01-01"], "M8[D]"),
    )
    changed = rng.choice(("replace", "replace", "remove", "rename", "add"))
    if changed in ("remove", "rename"):
        del arrays[name]
    if changed == "rename":
        arrays[rng.choice(("", "x", "../x", "a/b", "\x1b[31m", "é"))] = found
    elif changed == "add":
        arrays["more"] = rng.choice(others)
    elif changed == "replace":
        arrays[name] = rng.choice(others)
    stream = io.BytesIO()
    save: Any = rng.choice((np.savez, np.savez_compressed))
    try:
        save(stream, **arrays)
    except (ValueError, TypeError):
        return b""
    return stream.getvalue()


@door("records", share=16, prepare=fixtures.make_records)
def single_records(case: Case) -> None:
    """Altered records, by `show`, `show --plot`, `run RECORD --dry-run` and `status`."""
    rng = case.rng
    record = altered_record(rng, rng.choice(fixtures.make_records()))
    record.write(case.folder / "results" / "own")
    name = f"results/own/{record.id}.json"
    if rng.random() < 0.03:
        replace_file_by_other_kind(rng, case.folder / name, case.world.outside)
    kind = rng.random()
    if kind < 0.4:
        case.command("show", name)
    elif kind < 0.5:
        case.command("show", record.id[: rng.choice((3, 8, 16))])
    elif kind < 0.55:
        ending = rng.choice(("png", "svg", "svg", "xyz", ""))
        case.command("show", name, "--plot", f"plot.{ending}", writes=[f"plot.{ending}", "plot.png"])
    elif kind < 0.93:
        case.command("run", name, "--dry-run")
    else:
        case.command("status", rng.choice(("results", "results/own")))


MEASURES = (
    ("robustness",),
    ("reconstruction",),
    ("partner", "membership"),
    ("property",),
    ("runtime", "communication"),
)


def records_of_measures(measures: tuple[str, ...]) -> list[RecordFiles]:
    """Records of the small suite that are of these measures."""
    return [record for record in fixtures.make_records() if record.measure in measures]


def run_again(case: Case, measures: tuple[str, ...], records: list[RecordFiles]) -> CommandResult:
    """Hand records to `run` as those of a run that is finished: it prints its tables, and writes them anew."""
    from fflbench.execution.cells_to_run import plan_run
    from fflbench.execution.run_options import Options

    for record in records:
        record.write(case.folder / "results" / "part")
    suite = case.write("part.toml", fixtures.suite_with_measures(measures))
    planned = case.call(plan_run, str(suite), Options(), out="results")
    if planned and not planned.to_run:
        ran = case.command("run", suite, writes=["results"])
        check_outputs_harmless(case, case.folder / "results")
        return ran
    # A record that is refused makes its cell run again, which takes long and is no matter of input.
    case.outcome = 2
    return CommandResult(2, "", f"records are refused: {planned}")


@door("tables", share=5, prepare=fixtures.make_records)
def own_tables(case: Case) -> None:
    """Altered records of a finished run, in the tables of `run`."""
    rng = case.rng
    measures = rng.choice(MEASURES)
    records = records_of_measures(measures)
    for place in rng.sample(range(len(records)), min(len(records), rng.choice((1, 1, 2)))):
        records[place] = altered_record(rng, records[place], keep_id=True)
    run_again(case, measures, records)


@door("arrays", share=1.5, prepare=fixtures.make_records)
def arrays_beside_records(case: Case) -> None:
    """Altered arrays of a finished run's records, which know their digests, in the figures of `run`."""
    from fflbench.records.npz_file import arrays_digest

    rng, measures = case.rng, ("reconstruction",)
    records = records_of_measures(measures)
    for place in rng.sample(range(len(records)), rng.choice((1, 2))):
        record = records[place]
        packed = altered_arrays(rng, record.packed)
        tree = record.tree | {"arrays": arrays_digest(packed) if rng.random() < 0.95 else arrays_digest(record.packed)}
        tree.pop("digest", None)
        records[place] = RecordFiles(record.id, record.measure, json.dumps(tree).encode(), packed)
    if rng.random() < 0.1:
        records[0].write(case.folder / "results" / "part")
        replace_file_by_other_kind(rng, case.folder / "results" / "part" / f"{records[0].id}.npz", case.world.outside)
        records = records[1:]
    run_again(case, measures, records)


@door("numbers", share=3, prepare=fixtures.make_records)
def extreme_numbers(case: Case) -> None:
    """Records of a finished run whose figures are extreme, in the tables of `run` and by `show`."""
    rng = case.rng
    measures = rng.choice(MEASURES)
    figure = rng.choice((0, 1, -1, 1e-320, 1e29, 1e30, 9.9e30, 1e38, 1e200, 1.7e308, -1.7e308, 2**70, None))
    records = []
    for record in records_of_measures(measures):
        tree = record.tree
        tree.pop("digest", None)
        for name, value in tree["metrics"].items():
            if not isinstance(value, list | bool) and rng.random() < 0.5:
                tree["metrics"][name] = figure if rng.random() < 0.9 else hostile_value(rng)
        records.append(RecordFiles(record.id, record.measure, json_text(rng, tree), record.packed))
    if rng.random() < 0.5:
        run_again(case, measures, records)
    else:
        records[0].write(case.folder)
        case.command("show", f"{records[0].id}.json")


@door("status", share=7, prepare=fixtures.make_records)
def status_files(case: Case) -> None:
    """Altered status files of runs, by `status` and `status --json`."""
    rng = case.rng
    tree: dict[str, Any] = {
        "suite": "small",
        "command": "fflbench run small.toml",
        "host": "here",
        "process": 1234,
        "state": rng.choice(("starting", "running", "stopping", "stopped", "finished", "lost")),
        "cells": 10,
        "before": 2,
        "done": 3,
        "failed": [
            {"cell": "0" * 16, "name": "a · b · c", "reason": "ValueError: x", "command": "fflbench run x.json"}
        ],
        "running": [{"cell": "1" * 16, "name": "a", "where": "process 1", "round": 1, "rounds": 3, "accuracy": 0.5}],
        "seconds": 12.5,
        "left": 3.5,
    }
    kind = rng.random()
    if kind < 0.7:
        content = json_text(rng, alter_tree(rng, tree))
    elif kind < 0.95:
        content = damage_bytes(rng, json.dumps(tree).encode())
    else:
        content = rng.choice((b"", b"[" * 10**5, b'{"a":' * 10**4, b"1" * 10**4, b"\xff", b"null"))
    case.write("results/small/.run", content)
    if rng.random() < 0.2:
        altered_record(rng, rng.choice(fixtures.make_records())).write(case.folder / "results" / "small")
    if rng.random() < 0.1:
        place = rng.choice(("results/small/.run", "results/small/.lock"))
        replace_file_by_other_kind(rng, case.folder / place, case.world.outside)
    case.command("status", rng.choice(("results", "results/small")), *rng.choice(((), ("--json",))))
