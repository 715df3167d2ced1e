"""Whole rounds of two parallel cells beside peers on both cores; and a suite on one and on two workers.

A round lasts from selection to the new global model, without evaluation.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.engines import PLAIN, dataloader_training, has_task_data, load_local_data
from benchmarks.timing import Ratio, Side, compare
from fflbench import registry, run
from fflbench.execution.child_processes import start_fork_server
from fflbench.registry import Kind
from fflbench.tasks import Task

CELLS = 2
TUNED = "pfl-research, two workers, given our layout and fused optimiser"
SUITE = """
tasks = ["adult-mlp"]
attacks = ["none"]
defenses = ["fedavg"]
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
"""


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield ratios of the seconds per round, over all rounds of parallel cells."""
    for name, rounds, plain, pfl in (("adult-mlp", 40, None, 6.0), ("mnist-cnn", 1, 1.8, 1.4)):
        if not has_task_data(name):
            continue
        others: dict[str, tuple[Side, float | None]] = {f"{PLAIN}, two threads": (_dataloader_timer(name), plain)}
        if peers:
            others["pfl-research, two workers"] = (_pfl_timer(name, rounds), pfl)
            others[TUNED] = (_pfl_timer(name, rounds, "--tuned"), None)
        what = f"{name}, rounds, two cells side by side"
        yield from compare(what, _parallel_cells_timer(name, rounds), others, warm_up=False)
    if has_task_data("adult-mlp"):
        # The process that starts workers has imported torch before either side begins.
        start_fork_server()
        two = {"1 worker": (_suite_timer(1), 1.85)}
        yield from compare("a suite of 16 equal cells, 2 workers", _suite_timer(CELLS), two, warm_up=False)


def _parallel_cells_timer(name: str, rounds: int) -> Side:
    def run_side() -> float:
        context = multiprocessing.get_context("spawn")
        ready, times = context.Barrier(CELLS), context.Queue()
        cells = [
            context.Process(target=_time_rounds_of_cell, args=(name, rounds, seed, ready, times))
            for seed in range(CELLS)
        ]
        for cell in cells:
            cell.start()
        spans = [times.get() for _ in cells]
        for cell in cells:
            cell.join()
        return (max(end for _, end in spans) - min(start for start, _ in spans)) / (CELLS * rounds)

    return run_side


def _time_rounds_of_cell(name: str, rounds: int, seed: int, ready: Any, times: Any) -> None:
    """Run the rounds of one cell without evaluation, and report their start and end."""
    from fflbench.arrays.threads import one_thread
    from fflbench.federation import chain
    from fflbench.federation.rounds import Federation

    task, attack = (registry.get(kind, of).create() for kind, of in ((Kind.TASK, name), (Kind.ATTACK, "none")))
    cell = Federation(task, attack, chain.defense("fedavg"), seed)
    with one_thread():
        cell.train(np.arange(2))
        ready.wait()
        start = time.time()
        for _ in range(rounds):
            selected = cell.select()
            updates = cell.train(selected)
            cell.poison(selected, updates)
            cell.aggregate(cell.transmit(selected, updates))
            cell.round += 1
        times.put((start, time.time()))


def _dataloader_timer(name: str) -> Side:
    """Return a side that runs one round of the plain loop in a process of its own, as the others do."""

    def run_side() -> float:
        context = multiprocessing.get_context("spawn")
        times = context.Queue()
        process = context.Process(target=_time_dataloader_training, args=(name, times))
        process.start()
        seconds: float = times.get()
        process.join()
        return seconds

    return run_side


def _time_dataloader_training(name: str, times: Any) -> None:
    torch.set_num_threads(CELLS)
    task: Task = registry.get(Kind.TASK, name).create()
    local_data = load_local_data(task)
    dataloader_training(task, local_data, [0])()
    train = dataloader_training(task, local_data, list(range(task.per_round)))
    start = time.perf_counter()
    train()
    times.put(time.perf_counter() - start)


def _pfl_timer(name: str, rounds: int, *options: str) -> Side:
    def run_side() -> float:
        command = [sys.executable, "-m", "benchmarks.pfl_rounds", name, "--rounds", str(rounds), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        result = json.loads(done.stdout.splitlines()[-1])
        return float(result["seconds"]) / rounds

    return run_side


def _suite_timer(workers: int) -> Side:
    def run_side() -> float:
        with tempfile.TemporaryDirectory() as folder:
            suite = Path(folder) / "sixteen.toml"
            suite.write_text(SUITE, "utf-8")
            start = time.perf_counter()
            # Its output would disturb the progress bar.
            with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
                run(str(suite), out=folder, workers=workers)
            return time.perf_counter() - start

    return run_side
