"""Whole rounds of two cells side by side, beside peers that use both cores for one; and a suite on one and two workers.

Rounds are counted from selection to the new global model; nobody evaluates.
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

from benchmarks.engines import PLAIN, available, holdings_of, plain_loop
from benchmarks.timing import Ratio, Side, race
from fflbench import registry, run
from fflbench.execution.local import warm_up
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


def ratios(*, peers: bool) -> Iterator[Ratio]:
    """Seconds a round takes, cells side by side counted as the rounds they play together."""
    for name, rounds, plain, pfl in (("adult-mlp", 40, None, 6.0), ("mnist-cnn", 1, 1.8, 1.4)):
        if not available(name):
            continue
        others: dict[str, tuple[Side, float | None]] = {f"{PLAIN}, two threads": (_plain(name), plain)}
        if peers:
            others["pfl-research, two workers"] = (_pfl(name, rounds), pfl)
            others[TUNED] = (_pfl(name, rounds, "--tuned"), None)
        what = f"{name}, rounds, two cells side by side"
        yield from race(what, _side_by_side(name, rounds), others, warm_up=False)
    if available("adult-mlp"):
        # The server that workers come from has imported torch before either side begins.
        warm_up()
        two = {"1 worker": (_suite(1), 1.85)}
        yield from race("a suite of 16 equal cells, 2 workers", _suite(CELLS), two, warm_up=False)


def _side_by_side(name: str, rounds: int) -> Side:
    def play() -> float:
        context = multiprocessing.get_context("spawn")
        ready, times = context.Barrier(CELLS), context.Queue()
        cells = [context.Process(target=_cell, args=(name, rounds, seed, ready, times)) for seed in range(CELLS)]
        for cell in cells:
            cell.start()
        spans = [times.get() for _ in cells]
        for cell in cells:
            cell.join()
        return (max(end for _, end in spans) - min(start for start, _ in spans)) / (CELLS * rounds)

    return play


def _cell(name: str, rounds: int, seed: int, ready: Any, times: Any) -> None:
    """One cell: as in a federation's `play`, without evaluation."""
    from fflbench.federation import chain
    from fflbench.federation.rounds import Federation, one_thread

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


def _plain(name: str) -> Side:
    """In a process of its own, as the others are."""

    def play() -> float:
        context = multiprocessing.get_context("spawn")
        times = context.Queue()
        process = context.Process(target=_plain_round, args=(name, times))
        process.start()
        seconds: float = times.get()
        process.join()
        return seconds

    return play


def _plain_round(name: str, times: Any) -> None:
    torch.set_num_threads(CELLS)
    task: Task = registry.get(Kind.TASK, name).create()
    holdings = holdings_of(task)
    plain_loop(task, holdings, [0])()
    train = plain_loop(task, holdings, list(range(task.per_round)))
    start = time.perf_counter()
    train()
    times.put(time.perf_counter() - start)


def _pfl(name: str, rounds: int, *options: str) -> Side:
    def play() -> float:
        command = [sys.executable, "-m", "benchmarks.pfl_rounds", name, "--rounds", str(rounds), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        told = json.loads(done.stdout.splitlines()[-1])
        return float(told["seconds"]) / rounds

    return play


def _suite(workers: int) -> Side:
    def play() -> float:
        with tempfile.TemporaryDirectory() as folder:
            suite = Path(folder) / "sixteen.toml"
            suite.write_text(SUITE, "utf-8")
            start = time.perf_counter()
            # Its lines would disturb the bar.
            with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
                run(str(suite), out=folder, workers=workers)
            return time.perf_counter() - start

    return play
