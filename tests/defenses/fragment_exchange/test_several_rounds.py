"""Sums of pairs over several rounds: which updates they determine, and how changing updates blur them."""

from collections import Counter

import networkx
import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.attacker_deviation import ExchangeDeviation
from fflbench.defenses.transports.fragment_exchange.pair_sum_graph import separate_pair_sums
from fflbench.defenses.transports.fragment_exchange.several_rounds import PairSumsOfRounds
from hypothesis import given
from hypothesis import strategies as st

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.execution.run_cell import run_cell
from fflbench.federation import Columns, Setting
from fflbench.federation.chain import defense
from fflbench.privacy.observation import observe
from fflbench.registry import Kind
from tests.privacy.test_reconstruction import plan_reconstruction_cells


def sums_of(pairs, updates):
    return np.stack([updates[one] + updates[other] for one, other in pairs])


def test_a_triangle_gives_three_updates_by_the_formula():
    updates = np.random.default_rng(0).normal(size=(3, 5))
    sums = sums_of([(0, 1), (0, 2), (1, 2)], updates)
    people, found, determined = separate_pair_sums([(0, 1), (0, 2), (1, 2)], sums, 1)
    assert people.tolist() == [0, 1, 2]
    assert determined.all()
    np.testing.assert_allclose(found[0], (sums[0] + sums[1] - sums[2]) / 2)
    np.testing.assert_allclose(found, updates)


@st.composite
def rounds_of_pairs(draw):
    """Pairs of several rounds, each a part of a random matching."""
    n, seed = draw(st.integers(2, 9)), draw(st.integers(0, 2**32))
    rng, pairs, first = np.random.default_rng(seed), [], 0
    for _ in range(draw(st.integers(1, 5))):
        order = rng.permutation(n)[: 2 * draw(st.integers(1, n // 2))].reshape(-1, 2)
        pairs += [(int(min(pair)), int(max(pair))) for pair in order]
        first = first or len(pairs)
    return pairs, first, rng.normal(size=(n, 3))


@given(rounds_of_pairs())
def test_who_is_determined_follows_from_dense_algebra_and_is_recovered(case):
    pairs, first, updates = case
    people, found, determined = separate_pair_sums(pairs, sums_of(pairs, updates), first)
    dense = np.zeros((len(pairs), len(updates)))
    for row, pair in zip(dense, pairs, strict=True):
        row[list(pair)] = 1
    wanted = np.linalg.lstsq(dense, sums_of(pairs, updates), rcond=None)[0][people]
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    # Determined is whoever no solution of the homogeneous equations moves.
    values, vectors = np.linalg.eigh(dense.T @ dense)
    free = vectors[:, values < 1e-9]
    np.testing.assert_array_equal(determined, np.abs(free[people]).sum(1) < 1e-6)
    np.testing.assert_allclose(found[determined], updates[people[determined]], atol=1e-9)


@given(rounds_of_pairs(), st.floats(-5, 5))
def test_in_a_bipartite_component_other_updates_have_the_same_sums(case, shift):
    pairs, first, updates = case
    graph = networkx.Graph(pairs)
    moved = updates.copy()
    for component in map(list, networkx.connected_components(graph)):
        if networkx.is_bipartite(graph.subgraph(component)):
            side = networkx.bipartite.color(graph.subgraph(component))
            moved[component] += [[shift * (1 - 2 * side[who])] * 3 for who in component]
    results = [separate_pair_sums(pairs, sums_of(pairs, each), first) for each in (updates, moved)]
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-8)
    np.testing.assert_allclose(moved[results[0][0]][results[0][2]], updates[results[0][0]][results[0][2]])


def test_where_updates_change_the_first_rounds_sums_hold_and_the_rest_is_a_compromise():
    rng = np.random.default_rng(0)
    pairs = [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2), (0, 3)]
    first, later = rng.normal(size=(2, 4, 6))
    sums = np.concatenate([sums_of(pairs[:2], first), sums_of(pairs[2:], 0.9 * first + 0.1 * later)])
    _, found, determined = separate_pair_sums(pairs, sums, 2)
    assert determined.all()
    np.testing.assert_allclose(found[[0, 2]] + found[[1, 3]], sums[:2])
    _, unheld, _ = separate_pair_sums(pairs, sums, 0)
    assert np.linalg.norm(found - first) < np.linalg.norm(unheld - first)


def stationary_rounds(people, rounds, updates, mode="fast"):
    chain = defense("ffl", mode=mode)
    chain.begin(Setting(people, people, np.full(people, 3), Columns.of_length(updates.shape[1])), 0)
    model = np.zeros(updates.shape[1], np.float32)
    sent = [
        chain.transmit(round, model, np.arange(people), updates.copy(), watch=range(people)) for round in range(rounds)
    ]
    return chain, sent


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_with_pairs_known_and_updates_that_stay_all_in_odd_components_are_recovered_exactly(rounds, monkeypatch):
    monkeypatch.setattr(PairSumsOfRounds, "rounds", rounds)
    people, updates = 8, np.random.default_rng(1).standard_normal((8, 40), dtype=np.float32)
    chain, (first, *later) = stationary_rounds(people, rounds, updates)
    graph = networkx.Graph(
        [(who, view.extra["partner"]) for each in (first, *later) for who, view in each.participants.items()]
    )
    found = observe(PairSumsOfRounds(), chain.transport, first, range(people), [], later)
    assert [each.participants for each in found] == [(who,) for who in range(people)]
    for each in found:
        (who,), (update,) = each.participants, each.updates
        part = networkx.node_connected_component(graph, who)
        assert each.determined == (not networkx.is_bipartite(graph.subgraph(part)))
        assert np.allclose(update, updates[who], rtol=1e-5, atol=1e-6) == each.determined
        error = PairSumsOfRounds().own_metrics(each, first)["update_error"]
        assert error < 1e-6 if each.determined else error > 0.3
    # Two perfect matchings make even cycles only.
    assert any(each.determined for each in found) == (rounds > 2)


def test_an_observation_of_several_rounds_sees_no_more_of_them_than_it_declares(monkeypatch):
    seen = []
    monkeypatch.setattr(PairSumsOfRounds, "observe", lambda self, coalition: seen.append(coalition) or [])
    chain, (first, *later) = stationary_rounds(4, 6, np.ones((4, 10), np.float32))
    observe(PairSumsOfRounds(), chain.transport, first, range(4), [], later)
    single = registry.get(Kind.OBSERVATION, "pair-sum").create()
    assert [each.server for each in seen[0].later] == [each.server for each in later[:3]]
    monkeypatch.setattr(type(single), "observe", lambda self, coalition: seen.append(coalition) or [])
    observe(single, chain.transport, first, range(4), [], later)
    assert seen[1].later == []


DRAWS = 300


@pytest.mark.parametrize(("n", "shares"), [(10, {3: 0.75, 4: 0.96}), (20, {3: 0.95, 4: 1.0})])
def test_how_often_everybody_is_determined_by_random_pairs(n, shares):
    """All selected in every round, and pairs as the transport draws them."""
    chain = defense("fragment-exchange", warmup=10**6)
    chain.begin(Setting(n, n, np.full(n, 3), Columns.of_length(1)), 0)
    nobody, nothing, complete = np.zeros(n, bool), ExchangeDeviation(), Counter()
    for draw in range(DRAWS):
        pairs = []
        for rounds in range(1, 5):
            pairs += chain.transport._pair_participants(4 * draw + rounds, np.arange(n), nobody, nothing, Counter())
            complete[rounds] += bool(separate_pair_sums(pairs, np.zeros((len(pairs), 1)), 0)[2].all())
    assert complete[1] == complete[2] == 0
    for rounds, share in shares.items():
        # Three standard deviations, and the half percent to which the share is given.
        spread = np.sqrt(max(share * (1 - share), 0.01) / DRAWS)
        assert abs(complete[rounds] / DRAWS - share) < 3 * spread + 0.005


def reconstruct(observation, **parameters):
    """Metrics of the closed-form attack, which copies single images."""
    content = {"tasks": ["digits-mlp"], "attacks": ["analytic"], "attack": {}}
    measure = {"people": 10, "groups": 1, "rate": 1e-4} | parameters
    (cell,) = plan_reconstruction_cells(observation, ["ffl"], extra=content, **measure)
    record = run_cell(cell, "own")
    assert record.status == "done", record.error
    return record.metrics


def test_images_come_back_one_by_one_from_sums_of_four_rounds_and_not_from_two(monkeypatch):
    known = reconstruct("pair-sums-of-rounds")
    assert known["determined"] == 1
    assert known["update_error"] < 0.01
    assert known["floor_update_error"] > 0.5
    assert known["psnr"] > 60
    assert known["label_accuracy"] == 1
    monkeypatch.setattr(PairSumsOfRounds, "rounds", 2)
    control = reconstruct("pair-sums-of-rounds")
    assert control["determined"] == 0
    assert control["update_error"] > 0.3
    assert control["psnr"] < known["psnr"] - 20


def test_pairs_that_the_server_finds_by_itself_do_as_well():
    found, known = (reconstruct(f"{way}pair-sums-of-rounds", people=6) for way in ("found-", ""))
    assert found == known


def test_the_error_grows_with_the_learning_rate_and_with_local_steps():
    errors = [
        reconstruct("pair-sums-of-rounds", rate=rate, local_steps=steps)["update_error"]
        for rate, steps in [(0.001, 1), (0.01, 1), (0.1, 1), (0.01, 10)]
    ]
    assert 2 * errors[0] < errors[1] < errors[2] / 2
    assert 2 * errors[1] < errors[3]


def test_measures_of_one_round_refuse_observations_of_several():
    measure = registry.get(Kind.MEASURE, "membership").create(observation="pair-sums-of-rounds")
    task = registry.get(Kind.TASK, "digits-cnn").create()
    with pytest.raises(ParameterError, match="combines rounds, and this measure observes one"):
        measure.check(task, defense("ffl"))
