"""Attacks that simulate the defense to find their direction and strength."""

import copy
import itertools

import numpy as np
import pytest
from fflbench.attacks.poisoning import adaptive_search
from fflbench.attacks.poisoning._line_search import line_search
from hypothesis import given, settings
from hypothesis import strategies as st

import fflbench
from fflbench import registry
from fflbench.arrays import kernels
from fflbench.errors import ParameterError
from fflbench.federation import chain, simulation
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.strategies import matrices

STATELESS = ["fedavg", "median", "trimmed-mean", "krum", "multi-krum", "nnm + median"]


def federation(attack, defense, seed=0, defense_parameters=None, task="digits-mlp", **parameters):
    fields = {"participants": 10, "per_round": 10, "rounds": 4}
    attacking = registry.get(Kind.ATTACK, attack).create(**parameters)
    built = chain.defense(defense, **(defense_parameters or {}))
    return Federation(registry.get(Kind.TASK, task).create(**fields), attacking, built, seed)


# The line search


def test_steps_double_while_the_objective_grows_and_then_halves_are_tried():
    tried = []

    def objective(x):
        tried.append(x)
        return x if x <= 40 else -1.0

    assert line_search(objective, 8, start=0.0, step=10.0) == 40.0
    assert tried == [0, 10, 30, 70, 50, 40, 45, 35]


def test_a_search_leaves_a_plateau_of_strengths_that_a_defense_ignores():
    found = line_search(lambda x: x if x <= 2 else 1.0, 20, start=0.0, step=10.0)
    assert 1.9 < found <= 2


@settings(max_examples=100)
@given(st.floats(0.01, 1e6), st.integers(1, 60), st.booleans())
def test_a_search_finds_the_largest_strength_that_a_defense_accepts(limit, calls, is_known):
    tried = []

    def objective(x):
        tried.append(x)
        return x if x <= limit else -np.inf

    found = line_search(objective, calls, start=1e-3, step=1.0, value=1e-3 if is_known else None)
    assert len(tried) == calls
    assert found == max([x for x in tried if x <= limit], default=1e-3)
    if calls >= 50:
        assert found > 0.99 * limit


# Optimal factors


@settings(max_examples=25, deadline=None)
@given(
    matrices(n=st.integers(3, 6), d=st.integers(1, 5)),
    st.integers(1, 3),
    st.sampled_from(["optimal-inner-product", "optimal-little-is-enough"]),
)
def test_optimal_factors_send_copies_that_move_the_median_farther_than_the_first_factors(honest, attackers, name):
    rows = fflbench.poison(name, honest, attackers=attackers, defense="median").astype(np.float64)
    mean, deviation = honest.astype(np.float64).mean(0), honest.astype(np.float64).std(0)
    base, direction = (0 * mean, -mean) if name == "optimal-inner-product" else (mean, -deviation)
    np.testing.assert_array_equal(rows, np.tile(rows[:1], (attackers, 1)))

    def distance(row):
        columns = np.vstack([honest.astype(np.float64), *[row] * attackers]).T
        medians = [
            (sorted(column)[(len(column) - 1) // 2] + sorted(column)[len(column) // 2]) / 2 for column in columns
        ]
        return np.linalg.norm(np.array(medians) - mean)

    scale = 1e-4 * (1 + np.abs(honest).max())
    if not np.linalg.norm(direction) > 1e-3 * scale:
        return
    factor = (rows[0] - base) @ direction / (direction @ direction)
    assert factor > -1e-4
    np.testing.assert_allclose(rows[0], base + factor * direction, atol=scale * (1 + factor), rtol=1e-4)
    for other in (0.0, 10.0):
        assert distance(rows[0]) >= distance(base + other * direction) - scale


def test_the_optimal_factor_against_krum_is_that_of_a_fine_grid():
    rng = np.random.default_rng(0)
    honest = rng.normal(0.3, 1, (8, 50)).astype(np.float32)
    row = fflbench.poison("optimal-inner-product", honest, attackers=3, defense=fflbench.Aggregator("krum", f=3))[0]
    mean = honest.mean(0)

    def distance(factor):
        rows = np.vstack([honest, *[-factor * mean] * 3]).astype(np.float64)
        apart = np.sort(((rows[:, None] - rows[None]) ** 2).sum(2), axis=1)
        # Krum: the nearest 11 - 3 - 2 others, after the distance to itself.
        return np.linalg.norm(rows[apart[:, 1:7].sum(1).argmin()] - mean)

    best = max(distance(factor) for factor in np.linspace(0, 20, 2001))
    assert distance(-row @ mean / (mean @ mean)) > 0.99 * best
    assert best > 1.5 * distance(0)


# Adaptive search


def searched(defense, rounds=1, **parameters):
    """Return what attackers know in a round, a copy of it from before, and the rows that they send."""
    it = federation("adaptive-search", defense, **parameters)
    for _ in range(rounds):
        it.run_round()
    seen = []
    hook = it.attack.poison_updates

    def spying(known):
        before = copy.copy(known)
        before.rng, before.updates = copy.deepcopy(known.rng), known.updates.copy()
        memory = copy.deepcopy(it.attack.memory)
        seen.append((before, memory, hook(known).copy()))
        # Before rows are transmitted, which overwrites them: attackers simulate the round as it is now.
        raise StopIteration

    it.attack.poison_updates = spying
    with pytest.raises(StopIteration):
        it.run_round()
    return seen[0]


@pytest.mark.parametrize("defense", STATELESS)
def test_a_search_is_no_weaker_than_each_of_its_parts(defense):
    known, memory, sent = searched(defense)
    honest = known.honest
    change = known.weights - memory["model"]
    crafted = adaptive_search.CraftedRows(known, honest, change)
    assert set(crafted.directions) == set(adaptive_search.DIRECTIONS)
    harm = adaptive_search.harm(known, sent)
    for part in itertools.product(adaptive_search.DIRECTIONS, adaptive_search.SHAPES):
        for strength in (1.0, 4.0):
            assert harm >= adaptive_search.harm(known, crafted(part, strength))
    assert harm > adaptive_search.harm(known, known.updates)


def test_crafted_rows_are_those_of_the_definition():
    known, memory, _ = searched("median")
    honest = known.honest.astype(np.float64)
    mean = honest.mean(0)
    radius = np.sqrt(np.mean([np.sum((row - mean) ** 2) for row in honest]))
    component = np.linalg.svd(honest - mean)[2][0]
    expected = {
        "mean": -mean,
        "sign": -np.sign(mean),
        "std": -honest.std(0),
        "last aggregate": memory["model"].astype(np.float64) - known.weights,
        "principal component": -component * np.sign(component @ mean),
    }
    crafted = adaptive_search.CraftedRows(known, known.honest, known.weights - memory["model"])
    count = len(known.updates)
    for name, direction in expected.items():
        moved = mean + 3 * radius * direction / np.linalg.norm(direction)
        np.testing.assert_allclose(crafted((name, "copies"), 3.0), np.tile(moved, (count, 1)), rtol=1e-3, atol=1e-5)
        decoys = crafted((name, "half decoys"), 3.0)
        np.testing.assert_array_equal(decoys[: count // 2], known.updates[: count // 2])
        np.testing.assert_allclose(decoys[count // 2 :], crafted((name, "copies"), 3.0)[count // 2 :])
        spread = crafted((name, "spread"), 3.0)
        np.testing.assert_allclose(spread.mean(0), moved, rtol=1e-3, atol=1e-4)
        apart = spread - mean
        lengths = np.linalg.norm(apart, axis=1)
        cosines = (apart @ apart.T / np.outer(lengths, lengths))[~np.eye(count, dtype=bool)]
        assert np.abs(cosines).max() < 0.1


@pytest.mark.parametrize("calls", [1, 7, 40])
def test_a_search_keeps_to_its_calls_and_records_hold_them(calls):
    it = federation("adaptive-search", "median", calls=calls)
    it.run()
    assert [item["simulations"] for item in it.history] == [calls] * 4
    assert 0 < it.seconds["simulate"] < it.seconds["poison"]


def test_a_search_without_a_task_says_so():
    with pytest.raises(ParameterError, match="asks for a task; use it in a suite"):
        fflbench.poison("adaptive-search", np.ones((4, 3)), attackers=1, defense="median")


RULES = [entry.name for entry in registry.entries(Kind.RULE) if not entry.root_update]


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_without_data_of_its_own_withstands_60_percent_of_attackers(rule):
    takes_f = any(parameter.name == "f" for parameter in registry.get(Kind.RULE, rule).parameters)
    it = federation("adaptive-search", rule, defense_parameters={"f": "bound"} if takes_f else {}, share=0.6)
    it.run()
    assert it.history[-1]["accuracy"] < 0.2


def test_four_rounds_without_attackers_are_enough_to_learn():
    it = federation("none", "fedavg")
    it.run()
    assert it.history[-1]["accuracy"] > 0.8


# Knowledge and cost of simulations


def test_the_loss_is_that_of_the_attackers_own_examples_before_poisoning(own_registry):
    import torch

    from fflbench.plugin import Attack, attack

    found = []

    @attack("asks", title="Asks", knows=["own data", "attackers' updates"])
    class Asks(Attack):
        """Asks for losses."""

        def poison_data(self, examples, task, round, rng):
            return type(examples)(examples.x, (examples.y + 1) % 10)

        def poison_updates(self, known):
            found.append((known.participants, known.loss(known.weights)))
            return known.updates

    @attack("ignorant", title="Ignorant", knows=["attackers' updates"])
    class Ignorant(Attack):
        """Asks without declaring it."""

        def poison_updates(self, known):
            known.loss(known.weights)

    it = federation("asks", "fedavg")
    weights = it.weights.copy()
    it.run_round()
    ((who, loss),) = found
    data = it.task.data().train
    own = np.concatenate([it.participants.indices[each] for each in who])
    it.model.load(weights)
    outputs = it.model.model(torch.from_numpy(data.x[own]))
    expected = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(data.y[own])).item()
    assert loss == pytest.approx(expected, rel=1e-5)
    with pytest.raises(PermissionError, match="own data"):
        federation("ignorant", "fedavg").run_round()


@pytest.mark.parametrize("defense", ["krum", "multi-krum", "nnm + median", "clipping + krum"])
def test_inner_products_of_unchanged_rows_are_computed_once(defense, monkeypatch):
    whole, gram = [], kernels.gram
    aggregator = fflbench.Aggregator(defense, f=2)
    rng = np.random.default_rng(1)
    honest = rng.normal(0.5, 1, (7, 300)).astype(np.float32)
    found = []
    for large in (1 << 40, 1):
        monkeypatch.setattr(simulation, "LARGE", large)
        monkeypatch.setattr(kernels, "gram", lambda rows: whole.append(len(rows)) or gram(rows))
        whole.clear()
        found.append(fflbench.poison("optimal-inner-product", honest, attackers=2, defense=aggregator))
    np.testing.assert_allclose(*found, rtol=1e-6)
    # Clipping recombines rows by their norms alone, so that products are those of other rows.
    assert whole == ([] if defense.startswith("clipping") else [9])


def test_products_with_all_are_rows_of_the_gram_matrix():
    rows = np.random.default_rng(0).normal(size=(5, 70_000)).astype(np.float32)
    expected = rows.astype(np.float64) @ rows.astype(np.float64).T
    np.testing.assert_allclose(simulation.products_with_all(rows, np.array([1, 3])), expected[[1, 3]], rtol=1e-12)
