"""Rules beside torch and ByzFL (Guerraoui et al., 2025), and pre-aggregations beside ByzFL, on all cores."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Ratio, Side, compare
from fflbench import aggregate
from fflbench.arrays import kernels
from fflbench.federation import Columns, View, chain
from fflbench.federation.rule import Geometry
from fflbench.types import Matrix

SIZES = ((50, 1_000_000), (10, 14_728_266))
TARGETS = {
    ("median", 50): 8.0,
    ("trimmed-mean", 50): 10.0,
    ("multi-krum", 50): 4.0,
    ("median", 10): 12.0,
    ("trimmed-mean", 10): 8.0,
    ("multi-krum", 10): 4.0,
}
PREAGGREGATIONS = ("nnm", "bucketing", "clipping", "arc")


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield ratios of median, trimmed mean, Multi-Krum and pre-aggregations with a fifth of attackers."""
    torch.set_num_threads(os.cpu_count() or 1)
    for n, d in SIZES:
        f = n // 5
        updates = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
        tensor = torch.from_numpy(updates)
        for rule, parameters in (("median", {}), ("trimmed-mean", {"f": f}), ("multi-krum", {"f": f})):
            others: dict[str, tuple[Side, float | None]] = {"torch": (_rule_in_torch(rule, tensor, f), None)}
            if peers:
                others["ByzFL"] = (_rule_in_byzfl(rule, tensor, f), TARGETS.get((rule, n)))

            ours = partial(aggregate, rule, updates, **parameters)
            yield from compare(f"{rule}, {n} x {d:,}", ours, others)
        if peers:
            # Overwritten by both sides, and filled again before each run.
            rows = np.empty_like(updates)
            for name in PREAGGREGATIONS:
                ours, theirs = _our_preaggregation(name, n), _byzfl_preaggregation(name, f)
                sides = [_timer_on_fresh_rows(rows, updates, work) for work in (ours, theirs)]
                yield from compare(f"{name}, {n} x {d:,}", sides[0], {"ByzFL": (sides[1], None)})


def _timer_on_fresh_rows(rows: Matrix, updates: Matrix, work: Callable[[Matrix], object]) -> Side:
    def run_side() -> float:
        rows[:] = updates
        start = time.perf_counter()
        work(rows)
        return time.perf_counter() - start

    return run_side


def _our_preaggregation(name: str, n: int) -> Callable[[Matrix], object]:
    (step,) = chain.defense(f"{name} + fedavg").server.preaggregations

    def combine(rows: Matrix) -> Matrix:
        view = View(0, rows[0], rows, np.ones(n), Columns.of_length(rows.shape[1]), n)
        coefficients = step.coefficients(view, Geometry(rows), np.random.default_rng(0))
        return kernels.combine(rows, coefficients)

    return combine


def _byzfl_preaggregation(name: str, f: int) -> Callable[[Matrix], object]:
    import byzfl

    steps: dict[str, Any] = {
        "nnm": byzfl.NNM(f=f),
        "bucketing": byzfl.Bucketing(s=2),
        "clipping": byzfl.Clipping(c=2),
        "arc": byzfl.ARC(f=f),
    }
    return lambda rows: steps[name](torch.from_numpy(rows))


def _rule_in_torch(rule: str, tensor: torch.Tensor, f: int) -> Side:
    """Return a rule in torch's own operations."""
    n = len(tensor)

    def multi_krum() -> object:
        distances = torch.cdist(tensor, tensor).square()
        scores = distances.sort(1).values[:, 1 : n - f - 1].sum(1)
        return tensor[scores.argsort()[: n - f]].mean(0)

    rules: dict[str, Side] = {
        "median": lambda: tensor.median(0),
        "trimmed-mean": lambda: tensor.sort(0).values[f : n - f].mean(0),
        "multi-krum": multi_krum,
    }
    return rules[rule]


def _rule_in_byzfl(rule: str, tensor: torch.Tensor, f: int) -> Side:
    import byzfl

    rules: dict[str, Any] = {
        "median": byzfl.Median(),
        "trimmed-mean": byzfl.TrMean(f=f),
        "multi-krum": byzfl.MultiKrum(f=f),
    }
    return lambda: rules[rule](tensor)
