"""The run is killed over and over, at random moments, and in the end nothing tells."""

import os
import random
import signal
import time

from fflbench.records.store import read_record
from tests.execution.conftest import kill_group, result_texts

KILLS = 25

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none", "label-flipping", "gaussian-noise"]
defenses = ["fedavg", "median", "foolsgold", "ffl"]
seeds = [0, 1]
[overrides]
rounds = {rounds}
average_last = 3
"""

EAGER = '''
"""Checkpoints after every round, so that kills fall into the writing of them too."""
from fflbench.execution import run_cell
run_cell.CHECKPOINT_SECONDS, run_cell.CHECKPOINT_SHARE = 0.0, float("inf")
'''


def test_a_run_that_is_killed_25_times_ends_as_if_nothing_had_happened(fflbench):
    fflbench.suite(SUITE, rounds=200)
    (fflbench.folder / "eager.py").write_text(EAGER)
    command = ("run", "own.toml", "--plugin", "eager.py")
    fflbench(*command, "--out", "undisturbed")
    whole = fflbench.status(out="undisturbed").seconds
    folder, cut_off, done = fflbench.folder / "results/own", 0, []
    for turn in range(KILLS):
        process = fflbench.start(*command)
        if among_cells := turn % 3:
            fflbench.wait_until(process, lambda process=process: runs(fflbench, process))
        # Some kills fall into the start, most among cells; together they leave too little time to finish.
        end = time.monotonic() + random.uniform(0, whole / 15 if among_cells else 2.5)
        while time.monotonic() < end:
            valid(folder)
            time.sleep(0.05)
        cut_off += process.poll() is None
        if turn % 2:
            os.kill(process.pid, signal.SIGKILL)
        else:
            kill_group(process)
        process.communicate()
        before, done = done, valid(folder)
        assert set(before) <= set(done)
    assert cut_off == KILLS
    assert 0 < len(done) < 24
    fflbench(*command)
    assert result_texts(fflbench.records()) == result_texts(fflbench.records(out="undisturbed"))
    for name in ("tables.md", "tables.csv"):
        assert (folder / name).read_bytes() == (fflbench.folder / "undisturbed/own" / name).read_bytes()
    assert sorted(file.suffix for file in folder.iterdir() if not file.name.startswith(".")) == sorted(
        file.suffix for file in (fflbench.folder / "undisturbed/own").iterdir() if not file.name.startswith(".")
    )


def runs(fflbench, process):
    """Whether a command's cells have begun."""
    now = fflbench.status()
    return now is not None and now.process == process.pid and now.state == "running"


def valid(folder):
    """The records that stand, each of which must be whole at any moment."""
    return [read_record(file).id for file in sorted(folder.glob("*.json"))]
