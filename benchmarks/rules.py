"""Rules and pre-aggregations beside ByzFL (Guerraoui et al., 2025), torch and numpy's sum over rows, on all cores."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.timing import Ratio, Side, compare
from fflbench import Aggregator, aggregate, registry
from fflbench.arrays import kernels
from fflbench.federation import Columns, View, chain
from fflbench.federation.attack import poison_rows
from fflbench.federation.rule import Geometry
from fflbench.registry import Kind
from fflbench.types import Matrix

SIZES = {"many": (50, 1_000_000), "long": (10, 14_728_266), "few": (12, 1_000_000)}
"""Numbers of participants and of values of a model."""
F = "f"
"""Value of a parameter that stands for the number of attackers: a fifth of the participants."""


class Method(NamedTuple):
    """A method of ours and of ByzFL, with their parameters, and the targets of the ratios that it is measured for."""

    name: str
    peer: str
    parameters: Mapping[str, Any]
    peer_parameters: Mapping[str, Any]
    targets: Mapping[str, float]
    """Least ratio of ByzFL's time to ours, by size."""
    sum_targets: Mapping[str, float] = {}
    """Targets of the ratio of the time of numpy's sum over rows to ours, by size; empty where it is not measured."""


RULES = (
    Method("median", "Median", {}, {}, {"many": 20, "long": 60}, {"long": 1 / 1.5}),
    Method("trimmed-mean", "TrMean", {"f": F}, {"f": F}, {"many": 15, "long": 20}, {"long": 1 / 1.5}),
    Method("krum", "Krum", {"f": F}, {"f": F}, {"many": 4, "long": 4}),
    Method("multi-krum", "MultiKrum", {"f": F}, {"f": F}, {"many": 6, "long": 6}),
    # ByzFL takes three steps towards the geometric median, fflbench finds it.
    Method("geometric-median", "GeometricMedian", {}, {}, {"many": 4}),
    Method("meamed", "Meamed", {"f": F}, {"f": F}, {"many": 4}),
    Method("monna", "MoNNA", {"f": F}, {"f": F}, {"many": 4}),
    Method("caf", "CAF", {"f": F}, {"f": F}, {"many": 4}),
    Method("centered-clipping", "CenteredClipping", {}, {}, {"many": 4}),
    Method("mda", "MDA", {"f": F}, {"f": F}, {"few": 4}),
    Method("smea", "SMEA", {"f": F}, {"f": F}, {"few": 4}),
)
PREAGGREGATIONS = (
    Method("nnm", "NNM", {"f": F}, {"f": F}, {"many": 6, "long": 6}),
    Method("bucketing", "Bucketing", {"s": 2}, {"s": 2}, {"many": 4, "long": 4}),
    Method("clipping", "Clipping", {"bound": 2.0}, {"c": 2.0}, {"many": 4, "long": 4}),
    Method("arc", "ARC", {"f": F}, {"f": F}, {"many": 4, "long": 4}),
)


SEARCHED: Mapping[str, Mapping[str, Any]] = {
    "fedavg": {},
    "median": {},
    "trimmed-mean": {"f": F},
    "multi-krum": {"f": F},
    "foolsgold": {},
}
"""Rules against which the strength of an attack is searched, with their parameters."""
SEARCH_COST = 1.5
"""Largest duration of a line search, in multiples of the calls of the rule that it makes."""


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield the ratios of rules and of line searches, and of pre-aggregations beside ByzFL."""
    torch.set_num_threads(os.cpu_count() or 1)
    for size, (n, d) in SIZES.items():
        updates = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
        for rule in (each for each in RULES if size in each.targets):
            yield from compare(f"{rule.name}, {n} x {d:,}", *_sides_of_rule(rule, size, updates, peers=peers))
        # Overwritten by both sides, and filled again before each run.
        rows = np.empty_like(updates)
        for method in (each for each in PREAGGREGATIONS if peers and size in each.targets):
            works = _our_preaggregation(method, n), _in_byzfl(method, n)
            ours, theirs = (_timer_on_fresh_rows(rows, updates, work) for work in works)
            yield from compare(f"{method.name}, {n} x {d:,}", ours, {"ByzFL": (theirs, method.targets[size])})
        if size == "many":
            for name, parameters in SEARCHED.items():
                search, calls = _line_search(name, _fill_in(parameters, n), updates)
                others = {"the calls of the rule that it makes": (calls, 1 / SEARCH_COST)}
                yield from compare(f"optimal-inner-product against {name}, {n} x {d:,}", search, others)


def _sides_of_rule(
    rule: Method, size: str, updates: Matrix, *, peers: bool
) -> tuple[Side, dict[str, tuple[Side, float | None]]]:
    n, tensor = len(updates), torch.from_numpy(updates)
    others: dict[str, tuple[Side, float | None]] = {}
    if in_torch := _rules_in_torch(tensor, n // 5).get(rule.name):
        others["torch"] = in_torch, None
    if rule.sum_targets:
        others["numpy's sum over rows, on as many threads"] = (
            partial(_sum_over_rows, updates),
            rule.sum_targets.get(size),
        )
    if peers:
        others["ByzFL"] = partial(_in_byzfl(rule, n), updates), rule.targets[size]
    return partial(aggregate, rule.name, updates, **_fill_in(rule.parameters, n)), others


def _line_search(name: str, parameters: Mapping[str, Any], updates: Matrix) -> tuple[Side, Side]:
    """Return a search for the strongest attack by a fifth of the rows, and as many calls of the rule."""
    n, count = len(updates), len(updates) // 5
    attack, selected, rows = registry.get(Kind.ATTACK, "optimal-inner-product").create(), np.arange(n), updates.copy()
    defense = Aggregator(name, **parameters)

    def search() -> None:
        poison_rows(
            attack,
            rows,
            selected=selected,
            attackers=selected[-count:],
            round=0,
            weights=np.zeros(rows.shape[1], np.float32),
            columns=Columns.of_length(rows.shape[1]),
            task=None,  # type: ignore[arg-type]  # for attacks on data
            seed=0,
            simulate=defense.simulate,
            loss=lambda weights, who: 0.0,
        )

    def calls() -> None:
        for _ in range(attack.evaluations):
            aggregate(name, updates, **parameters)

    return search, calls


def _fill_in(parameters: Mapping[str, Any], n: int) -> dict[str, Any]:
    return {name: n // 5 if value == F else value for name, value in parameters.items()}


def _sum_over_rows(updates: Matrix) -> object:
    """Add the rows up in blocks that fit into the cache, which is faster than one sum over the whole."""
    return kernels.over_columns(updates, lambda block: block.sum(0))


def _in_byzfl(method: Method, n: int) -> Callable[[Matrix], object]:
    import byzfl

    run = getattr(byzfl, method.peer)(**_fill_in(method.peer_parameters, n))
    return lambda rows: run(torch.from_numpy(rows))


def _timer_on_fresh_rows(rows: Matrix, updates: Matrix, work: Callable[[Matrix], object]) -> Side:
    def run_side() -> float:
        rows[:] = updates
        start = time.perf_counter()
        work(rows)
        return time.perf_counter() - start

    return run_side


def _our_preaggregation(method: Method, n: int) -> Callable[[Matrix], object]:
    (step,) = chain.defense(f"{method.name} + fedavg", **_fill_in(method.parameters, n)).server.preaggregations

    def combine(rows: Matrix) -> Matrix:
        view = View(0, rows[0], rows, np.ones(n), Columns.of_length(rows.shape[1]), n)
        coefficients = step.coefficients(view, Geometry(rows), np.random.default_rng(0))
        return kernels.combine(rows, coefficients)

    return combine


def _rules_in_torch(tensor: torch.Tensor, f: int) -> dict[str, Side]:
    """Return rules in torch's own operations."""
    n = len(tensor)

    def multi_krum() -> object:
        distances = torch.cdist(tensor, tensor).square()
        scores = distances.sort(1).values[:, 1 : n - f - 1].sum(1)
        return tensor[scores.argsort()[: n - f]].mean(0)

    return {
        "median": lambda: tensor.median(0),
        "trimmed-mean": lambda: tensor.sort(0).values[f : n - f].mean(0),
        "multi-krum": multi_krum,
    }
