"""The reputation rule against its paper, written slowly, behind no exchange and behind one."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from fflbench.defenses.rules.reputation import similarity_scores
from hypothesis import given
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.federation import Columns, chain
from fflbench.references.reputation import quartile, reputation, trust
from fflbench.references.reputation import similarity_scores as slow_scores
from fflbench.registry import Kind
from tests.defenses.fragment_exchange.cells import cell, create, transmitted
from tests.played import finished
from tests.strategies import normal_matrices

PLAIN, EXCHANGED = "reputation", "fragment-exchange + reputation"


@given(normal_matrices(n=st.integers(2, 9), d=st.integers(6, 15)), st.sampled_from([0.0, 0.2, 1.0]))
def test_scores_are_those_of_the_paper(updates, alpha):
    columns = replace(Columns.of_length(updates.shape[1]), last_layer=slice(2, 6))
    wanted = slow_scores(updates, slice(2, 6), alpha)
    np.testing.assert_allclose(similarity_scores(updates, columns, alpha), wanted, rtol=1e-4, atol=1e-5)


def slow_closeness(magnitudes):
    """Closeness by the median of distances, one magnitude at a time."""
    distances = [abs(each - statistics.median(magnitudes)) for each in magnitudes]
    outlying = 3 * 1.4826 * statistics.median(distances)
    return [max(0.0, 1 - distance / outlying) if outlying else float(distance == 0) for distance in distances]


@given(normal_matrices(n=st.integers(2, 9), d=st.integers(6, 15)), st.sampled_from([0.0, 0.2, 1.0]))
def test_scores_by_the_median_of_distances_are_those_of_their_definition(updates, alpha):
    columns = replace(Columns.of_length(updates.shape[1]), last_layer=slice(2, 6))
    directions = slow_scores(updates, slice(2, 6), alpha=0.0)
    closeness = slow_closeness([math.hypot(*map(float, row)) for row in updates])
    wanted = [alpha * c + (1 - alpha) * d for c, d in zip(closeness, directions, strict=True)]
    found = similarity_scores(updates, columns, alpha, "median")
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@given(
    st.lists(st.integers(10, 40), min_size=3, max_size=9, unique=True),
    st.floats(1e3, 1e9),
    st.floats(1e3, 1e9),
)
def test_one_huge_update_changes_no_other_score_by_the_median_and_levels_them_by_the_largest(tenths, huge, larger):
    """Closeness alone, of magnitudes from 1 to 4."""

    def scores(outlier, distance_scale):
        rows = np.array([*(each / 10 for each in tenths), outlier], np.float32)[:, None]
        return similarity_scores(rows, Columns.of_length(1), 1.0, distance_scale)

    robust = scores(huge, "median")
    np.testing.assert_allclose(robust[:-1], scores(larger, "median")[:-1], rtol=1e-6)
    assert robust[-1] == 0
    assert np.ptp(robust[:-1]) > 0.001
    levelled = scores(huge, "largest")
    assert np.ptp(levelled[:-1]) < 4 / (huge - 4)
    assert levelled[:-1].min() > 1 - 4 / (huge - 4)


def test_where_most_magnitudes_are_equal_all_others_are_far_by_the_median():
    rows = np.array([[1.0], [1.0], [1.0], [1.5], [900.0]], np.float32)
    np.testing.assert_array_equal(similarity_scores(rows, Columns.of_length(1), 1.0, "median"), [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(similarity_scores(rows[:3], Columns.of_length(1), 1.0, "median"), [1, 1, 1])


def test_an_outlier_hides_long_updates_with_honest_last_layers_unless_distances_are_robust():
    """Attackers' rows are five times as long; only their magnitudes differ."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 40)).astype(np.float32)
    rows[:, -8:] = 1
    rows[:3, :-8] *= 5
    columns = replace(Columns.of_length(40), last_layer=slice(32, 40))
    sacrificed = np.vstack([rows, -1000 * rows[-1:]])

    def gap(updates, distance_scale):
        similarity = similarity_scores(updates, columns, 0.2, distance_scale)
        return similarity[3:10].min() - similarity[:3].max()

    assert gap(rows, "largest") > 0.05
    assert gap(sacrificed, "largest") < 0.002
    assert gap(rows, "median") > 0.05
    assert gap(sacrificed, "median") > 0.05


def test_the_scale_of_distances_is_part_of_a_configuration_only_where_it_is_not_the_papers():
    def configured(**parameters):
        return chain.parse("ffl").check(parameters)["rule"]["parameters"]

    assert "distance_scale" not in configured()
    assert configured(distance_scale="largest") == configured()
    assert configured(distance_scale="median")["distance_scale"] == "median"


@given(normal_matrices(n=st.integers(3, 9), d=st.integers(2, 9)), st.sampled_from([0.0, 0.2, 1.0]))
def test_the_aggregate_of_a_first_round_is_its_reference(updates, alpha):
    (wanted,) = reputation(updates.tolist(), alpha)
    np.testing.assert_allclose(aggregate("reputation", updates, alpha=alpha), wanted, rtol=1e-3, atol=1e-4)


def test_scores_and_trusts_of_the_reference_by_hand():
    """Magnitudes 1, 2, 3 and 5 are 1.5, 0.5, 0.5 and 2.5 from their median; all point the same way."""
    rows = [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [5.0, 0.0]]
    assert slow_scores(rows, alpha=1.0) == pytest.approx([0.4, 0.8, 0.8, 0.0])
    assert slow_scores(rows, alpha=0.5) == pytest.approx([0.7, 0.9, 0.9, 0.5])
    # At right angles to the median (1, 0) a row scores 1/2, opposed to it 0.
    assert slow_scores([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], alpha=0.0) == [1, 1, 1, 0.5, 0]
    assert quartile([0.4, 0.8, 0.8, 0.0]) == pytest.approx(0.3)
    assert trust([0.4, 0.8, 0.8, 0.0]) == pytest.approx([0.0996680, 0.4621172, 0.4621172, 0.0], abs=1e-6)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=12))
def test_the_quartile_of_the_reference_is_that_of_numpy(values):
    assert quartile(values) == pytest.approx(np.quantile(values, 0.25), abs=1e-9)


def test_scores_of_equal_magnitudes_and_zero_vectors_are_settled():
    columns = Columns.of_length(3)
    same = np.tile(np.array([1, 2, 2], np.float32), (4, 1))
    np.testing.assert_allclose(similarity_scores(same, columns, 0.2), 1)
    np.testing.assert_allclose(similarity_scores(np.zeros((4, 3), np.float32), columns, 0.2), 0.2 + 0.8 * 0.5)


def test_buffers_count_for_no_score():
    updates = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    columns = replace(Columns.of_length(8), parameters=slice(0, 6), last_layer=slice(4, 6))
    before = similarity_scores(updates, columns, 0.2)
    updates[:, 6:] *= 1000
    np.testing.assert_array_equal(similarity_scores(updates, columns, 0.2), before)


@pytest.mark.parametrize("defense", [PLAIN, EXCHANGED])
def test_reputations_and_trusts_follow_the_papers_equations(defense):
    """Rows count by their weights: examples where they travel as they are, alike where the exchange scaled them."""
    it = cell("gaussian-noise", defense, rounds=5, partition="dirichlet")
    gamma = np.zeros(20)
    for _ in range(5):
        transcript = transmitted(it)
        view = transcript.server
        sim = slow_scores(view.rows, it.model.columns.last_layer, 0.2)
        for who, value in zip(view.participants, sim, strict=True):
            gamma[who] += value - quartile(sim)
        trust = np.array([max(math.tanh(gamma[who] - quartile(gamma)), 0) for who in view.participants])
        weights = (trust if trust.any() else 1) * (view.sizes if defense == PLAIN else np.ones(len(trust)))
        wanted = np.average(view.rows.astype(np.float64), axis=0, weights=weights)
        before = it.weights.copy()
        it.aggregate(transcript)
        np.testing.assert_allclose(it.defense.rule.memory["global"], gamma, atol=1e-5)
        factor = 1.0 if defense == PLAIN else len(view.sizes) * it.defense.setting.sizes.mean() / view.sizes.sum()
        np.testing.assert_allclose(it.weights - before, wanted * factor, atol=1e-4)
        it.round += 1


def test_on_plain_updates_nobody_abstains_and_rows_are_those_of_their_senders():
    it = cell(defense=PLAIN)
    selected = it.select()
    updates = it.train(selected)
    sent = updates.copy()
    view = it.transmit(selected, updates).server
    assert view.participants.tolist() == selected.tolist()
    np.testing.assert_array_equal(view.rows, sent)
    assert it.defense.memory["transport"] == {}
    assert {"abstained", "lone", "framed"}.isdisjoint(it.run_round())


def test_poisoners_are_seldom_selected_and_never_believed():
    it = cell("gaussian-noise", PLAIN, rounds=25)
    outcome = finished(it)
    assert sum(told["attackers_selected"] for told in outcome.history[-5:]) <= 1
    assert {told.get("attacker_trust", 0.0) for told in outcome.history} == {0.0}
    assert outcome.metrics["accuracy"] > 0.93


def test_candidates_are_at_or_above_the_first_quartile():
    def selected(round=0, **parameters):
        it = cell(defense=PLAIN, defense_parameters=parameters)
        it.defense.rule.memory["global"][:] = np.arange(20)
        return it.defense.select(round)

    for round in range(20):
        chosen = selected(round)
        assert len(set(chosen)) == 10
        assert chosen.min() >= 5
    # C = 10/20 of 15 candidates.
    assert len(selected(selection_size="literal")) == 7
    assert (selected(explore=0.2) < 5).sum() == 2


def test_the_selection_is_even_in_number_where_the_transport_pairs_people():
    def selected(defense):
        it = cell(defense=defense, per_round=9)
        return len(it.select())

    assert (selected(PLAIN), selected(EXCHANGED)) == (9, 8)


def test_in_the_first_round_everybody_meets_the_selection_of_the_others():
    assert cell().select().tolist() == cell(defense=PLAIN).select().tolist() == cell(defense="fedavg").select().tolist()


def test_warming_up_takes_the_median_and_everybody():
    it = cell(defense=PLAIN, defense_parameters={"warmup": 1})
    it.defense.rule.memory["global"][:] = np.arange(20)
    assert it.select().min() < 5
    transcript = transmitted(it)
    np.testing.assert_array_equal(it.defense.aggregate(transcript), aggregate("median", transcript.server.rows))
    assert it.defense.select(1).min() >= 5


def test_penalising_rows_that_are_not_finite_is_the_default():
    assert create(Kind.RULE, "reputation").non_finite == "penalise"


@pytest.mark.parametrize("non_finite", ["spare", "penalise"])
def test_a_row_that_is_not_finite_costs_its_sender_reputation_unless_spared(non_finite):
    it = cell(defense=PLAIN, defense_parameters={"non_finite": non_finite})
    selected = it.select()
    updates = it.train(selected)
    updates[2] = np.nan
    transcript = it.transmit(selected, updates)
    assert transcript.server.dropped.tolist() == [selected[2]]
    it.aggregate(transcript)
    short = 0 - quartile(slow_scores(transcript.server.rows, it.model.columns.last_layer, 0.2))
    found = it.defense.rule.memory["global"][selected[2]]
    assert found == (pytest.approx(short, abs=1e-5) if non_finite == "penalise" else 0)
    assert short < -0.1


def test_trust_is_told_only_of_the_round_it_is_of(monkeypatch):
    it = cell(defense=PLAIN)
    it.run_round()
    assert it.history[-1]["trust"]
    monkeypatch.setattr(it, "poison", lambda selected, updates: updates.fill(np.nan))
    told = it.run_round()
    assert told["kept_because"] == "no update was left"
    assert told["trust"] == {}


def test_the_share_of_data_held_by_the_excluded_is_told():
    it = cell(defense=PLAIN, partition="dirichlet", rounds=4)
    facts = finished(it).facts
    sizes = it.defense.setting.sizes
    assert facts["share_of_data_excluded"] == pytest.approx(sizes[facts["excluded"]].sum() / sizes.sum())
