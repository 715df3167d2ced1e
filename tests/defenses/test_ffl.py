"""Fragmented federated learning against its paper, written slowly, and against everything PROTOCOL settles."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from fflbench.defenses import _mixing, ffl
from hypothesis import given
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.crypto import pads
from fflbench.crypto.errors import ExchangeError
from fflbench.crypto.seal import SealingKey
from fflbench.errors import ParameterError
from fflbench.federation import Columns, Sent, ServerView
from tests.defenses.ffl_cells import by_name, cell, quartile, slow_scores
from tests.played import finished
from tests.strategies import normal_matrices


@given(normal_matrices(n=st.integers(2, 9), d=st.integers(6, 15)), st.sampled_from([0.0, 0.2, 1.0]))
def test_scores_are_those_of_the_paper(updates, alpha):
    columns = replace(Columns.plain(updates.shape[1]), last_layer=slice(2, 6))
    wanted = slow_scores(updates, slice(2, 6), alpha)
    np.testing.assert_allclose(ffl.scores(updates, columns, alpha), wanted, rtol=1e-4, atol=1e-5)


def test_scores_of_equal_magnitudes_and_zero_vectors_are_settled():
    columns = Columns.plain(3)
    same = np.tile(np.array([1, 2, 2], np.float32), (4, 1))
    np.testing.assert_allclose(ffl.scores(same, columns, 0.2), 1)
    np.testing.assert_allclose(ffl.scores(np.zeros((4, 3), np.float32), columns, 0.2), 0.2 + 0.8 * 0.5)


def test_buffers_count_for_no_score():
    updates = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    columns = replace(Columns.plain(8), parameters=slice(0, 6), last_layer=slice(4, 6))
    before = ffl.scores(updates, columns, 0.2)
    updates[:, 6:] *= 1000
    np.testing.assert_array_equal(ffl.scores(updates, columns, 0.2), before)


def test_reputations_follow_the_papers_equations():
    it = cell(attack="gaussian-noise", rounds=5)
    gamma, zeta = np.zeros(20), np.zeros((20, 20))
    for _ in range(5):
        selected = it.select()
        view = it.transmit(selected, it.poison(selected, it.train(selected)))
        sim = slow_scores(view.updates, it.model.columns.last_layer, 0.2)
        difference = [value - quartile(sim) for value in sim]
        for who, value in zip(view.participants, difference, strict=True):
            gamma[who] += value
            zeta[who, it.defense.partner[who]] += value
        before = it.weights.copy()
        it.aggregate(view)
        trust = [max(math.tanh(gamma[who] - quartile(gamma)), 0) for who in view.participants]
        np.testing.assert_allclose(it.defense.memory["global"], gamma, atol=1e-5)
        np.testing.assert_allclose(it.defense.memory["local"], zeta, atol=1e-5)
        wanted = np.average(view.updates.astype(np.float64), axis=0, weights=trust if any(trust) else None)
        factor = len(view.sizes) * it.defense.setting.sizes.mean() / view.sizes.sum()
        np.testing.assert_allclose(it.weights - before, wanted * factor, atol=1e-4)
        it.round += 1


@pytest.mark.parametrize("partition", ["iid", "dirichlet"])
@pytest.mark.parametrize("mode", ["fast", "full"])
def test_with_equal_trust_and_complete_pairs_the_aggregate_is_fedavgs(monkeypatch, partition, mode):
    monkeypatch.setattr(ffl, "scores", lambda updates, *_: np.ones(len(updates)))
    it = cell(partition=partition, defense_parameters={"mode": mode})
    selected = it.select()
    updates = it.train(selected)
    sizes = it.defense.setting.sizes[selected]
    wanted = aggregate("fedavg", updates.astype(np.float64), weights=sizes)
    view = it.transmit(selected, Sent(updates, updates))
    assert len(view.updates) == 10
    found = it.defense.aggregate(view)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert len(set(sizes)) > 1


@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_both_modes_give_the_same_bits_with_the_same_masks(monkeypatch, strategy):
    def by_names(_, round, initiator, acceptor, size):
        return np.random.default_rng([round, initiator, acceptor]).integers(2, size=size, dtype=np.uint8)

    monkeypatch.setattr(pads, "mask", by_names)
    views = []
    for mode in ("fast", "full"):
        it = cell("gaussian-noise", attack_parameters={"strategy": strategy}, defense_parameters={"mode": mode})
        selected = it.select()
        views.append(it.transmit(selected, it.poison(selected, it.train(selected))))
    assert views[0].updates.tobytes() == views[1].updates.tobytes()
    assert views[0].participants.tolist() == views[1].participants.tolist()


def test_mixed_rows_are_permutations_of_the_partners_rows():
    it = cell(defense="ffl-mixing")
    selected = it.select()
    updates = it.train(selected)
    original = by_name(it, selected, updates)
    view = it.transmit(selected, Sent(updates, updates))
    mixed = dict(zip(map(int, view.participants), view.updates, strict=True))
    for who, row in mixed.items():
        partner = it.defense.partner[who]
        own = row == original[who]
        theirs = row == original[partner]
        assert (own | theirs).all()
        np.testing.assert_array_equal(row + mixed[partner], original[who] + original[partner])
        assert abs(own.mean() - 0.5) < 0.1


def test_the_server_is_told_no_pairs():
    names = {field.name for field in fields(ServerView)}
    assert not any("pair" in name or "partner" in name for name in names)


def test_strategies_are_what_they_are_called():
    for strategy in (1, 2, 3):
        it = cell("gaussian-noise", attack_parameters={"strategy": strategy})
        selected = it.select()
        honest = it.train(selected)
        sent = it.poison(selected, honest.copy())
        hostile = np.isin(selected, it.attackers)
        poisoned, clean = by_name(it, selected, sent.exchanged), by_name(it, selected, honest)
        view = it.transmit(selected, sent)
        rows = dict(zip(map(int, view.participants), view.updates, strict=True))
        attacker = next(int(who) for who in selected[hostile] if int(who) in rows)
        partner = it.defense.partner[attacker]
        # Whatever it submits, its partner got poison in half of the coordinates.
        assert 0.4 < (rows[partner] == poisoned[attacker]).mean() < 0.6
        if strategy == 1:
            assert 0.4 < (rows[attacker] == poisoned[attacker]).mean() < 0.6
        elif strategy == 2:
            np.testing.assert_array_equal(rows[attacker], poisoned[attacker])
        else:
            np.testing.assert_array_equal(rows[attacker], clean[attacker])


def test_strategy_3_submits_what_clean_data_gives():
    it = cell("label-flipping", attack_parameters={"strategy": 3, "share": 0.5})
    selected = it.select()
    sent = it.poison(selected, it.train(selected))
    clean = cell("none").train(selected)
    np.testing.assert_allclose(sent.submitted, clean, atol=1e-5)
    assert not np.allclose(sent.exchanged, clean, atol=1e-3)


def test_candidates_are_at_or_above_the_first_quartile_and_even_in_number():
    it = cell()
    it.defense.memory["global"][:] = np.arange(20)
    for round in range(20):
        selected = it.defense.select(round)
        assert len(selected) == 10
        assert len(set(selected)) == 10
        assert selected.min() >= 5
    literal = cell(defense_parameters={"selection_size": "literal"})
    literal.defense.memory["global"][:] = np.arange(20)
    # C = 10/20 of 15 candidates: an odd number, so somebody will stand aside.
    assert len(literal.defense.select(0)) == 7
    curious = cell(defense_parameters={"explore": 0.2})
    curious.defense.memory["global"][:] = np.arange(20)
    assert (curious.defense.select(0) < 5).sum() == 2


def test_in_the_first_round_everybody_meets_the_selection_of_the_others():
    assert cell().select().tolist() == cell(defense="fedavg").select().tolist()


def pairs_of(it, indifferent=()):
    selected = np.arange(10)
    rows = np.random.default_rng(0).normal(size=(10, it.model.columns.count)).astype(np.float32)
    accepts = np.isin(selected, indifferent)
    it.defense.round = 0
    it.defense.transmit(0, it.weights, selected, Sent(rows, rows, None, accepts))
    return it.defense.partner


def test_both_sides_must_accept():
    it = cell()
    local = it.defense.memory["local"]
    # Everybody thinks little of 3.
    local[:, 3] = -1
    partner = pairs_of(it)
    assert 3 not in partner
    assert it.defense.abstained == [3] or 3 in it.defense.abstained
    assert len(partner) % 2 == 0


def test_attackers_accept_everyone():
    it = cell()
    local = it.defense.memory["local"]
    local[:, 3] = -1
    local[7, 3] = -1
    assert pairs_of(it, indifferent=[7])[3] == 7


def test_the_literal_acceptance_leaves_nobody_at_the_start():
    it = cell(defense_parameters={"acceptance": "literal"}, rounds=1)
    told = it.play()
    assert len(told["abstained"]) == 10
    assert told["kept_because"] == "no update was left"


def test_who_abstains_sends_nothing():
    it = cell(attack="none")
    it.defense.memory["local"][:, it.select()[0]] = -1
    selected = it.select()
    view = it.transmit(selected, it.poison(selected, it.train(selected)))
    assert selected[0] not in view.participants
    assert set(view.participants) == set(it.defense.partner)
    assert len(view.participants) + len(it.defense.abstained) == 10


def test_reputation_keeps_poisoners_out():
    it = cell("gaussian-noise", rounds=25)
    outcome = finished(it)
    late = outcome.history[-5:]
    assert sum(told["attackers_selected"] for told in late) <= 1
    assert set(it.attackers) <= set(outcome.facts["excluded"])
    assert outcome.facts["honest_excluded"] == len(outcome.facts["excluded"]) - 4
    assert outcome.metrics["accuracy"] > 0.93


@pytest.mark.parametrize(("side", "step"), [("Acceptor", "take"), ("Initiator", "take"), ("Acceptor", "finish")])
@pytest.mark.parametrize("fault", ["a message whose MAC does not hold", "a partner that fell silent"])
def test_a_fault_between_partners_silences_both_and_is_counted(monkeypatch, side, step, fault):
    it = cell(defense_parameters={"mode": "full"}, rounds=2)
    broken, party = [], getattr(_mixing, side)
    inherited = getattr(party, step)

    def faulty(self, message):
        if not broken:
            broken.append({self.name, self.partner})
            raise ExchangeError(fault)
        return inherited(self, message)

    monkeypatch.setattr(party, step, faulty)
    selected = it.select()
    view = it.transmit(selected, it.poison(selected, it.train(selected)))
    assert set(selected) - set(view.participants) == broken[0]
    assert it.defense.report()["faults"] == [f"between partners: {fault}"]
    assert it.aggregate(view) == ""


def test_a_fault_that_only_the_server_sees_drops_that_row_alone(monkeypatch):
    it = cell(defense_parameters={"mode": "full"}, rounds=2)
    damaged = []
    seal = SealingKey.seal

    def once(self, seed, entropy, round, *purpose):
        sealed = seal(self, seed, entropy, round, *purpose)
        if not damaged:
            damaged.append(purpose[0])
            return bytes(len(sealed))
        return sealed

    monkeypatch.setattr(SealingKey, "seal", once)
    told = it.play()
    assert told["faults"] == ["at the server: a sealed seed that does not open"]
    assert len(it.defense.trust) == 9
    assert it.defense.partner[damaged[0]] not in it.defense.trust


def test_bytes_are_those_of_real_messages():
    it = cell(defense_parameters={"mode": "full"}, rounds=1)
    told = it.play()
    d, pairs = 4 * it.model.columns.count, 5
    assert told["bytes_so_far"] == {
        "power": pairs * 2 * 256,
        "sealed seed": pairs * 4 * 384,
        "masked vector": pairs * 4 * d,
        "mixed update": pairs * 2 * d,
        "feedback": pairs * 2 * 4,
        "mac": pairs * 2 * 32,
        "framing": pairs * ((17 + 16) + (17 + 40) + (17 + 24) + 2 * (17 + 16) + 2 * (17 + 8)),
    }
    assert "bytes_so_far" not in cell(rounds=1).play()


def test_nothing_secret_is_in_what_is_told():
    it = cell(defense_parameters={"mode": "full"}, rounds=1)
    told = it.play()
    assert set(told) - {
        "trust",
        "honest_trust",
        "attacker_trust",
        "reputation",
        "excluded",
        "abstained",
        "faults",
        "framed",
        "lone",
        "bytes_so_far",
    } == set(cell(rounds=1, defense="fedavg").play())


@pytest.mark.parametrize(
    "parameters",
    [
        {"selection_size": "literal"},
        {"non_finite": "spare"},
        {"weighting": "equal"},
        {"warmup": 5},
        {"explore": 0.3},
        {"alpha": 1.0},
        {"group": "rfc5114", "mode": "full"},
    ],
)
def test_every_literal_or_other_choice_runs(parameters):
    outcome = finished(cell("label-flipping", defense_parameters=parameters, rounds=6))
    assert outcome.metrics["accuracy"] > 0.5


def test_the_literal_division_keeps_the_model_from_learning():
    """At the start trust is far below 1, so the model is pulled towards zero in every round."""
    outcome = finished(cell("none", defense_parameters={"normalise": "literal"}, rounds=6))
    assert outcome.metrics["accuracy"] < 0.5
    assert not outcome.metrics["diverged"]


def test_attackers_may_be_told_to_avoid_each_other():
    def among_themselves(avoiding):
        it = cell("gaussian-noise", attack_parameters={"share": 0.5, "avoid_each_other": avoiding})
        count = 0
        for round in range(10):
            it.round = round
            selected = it.select()
            it.transmit(selected, it.poison(selected, it.train(selected)))
            count += sum(who in it.attackers and other in it.attackers for who, other in it.defense.partner.items())
        return count

    assert among_themselves(False) > 0
    assert among_themselves(True) == 0


def test_trust_is_told_only_of_the_round_it_is_of(monkeypatch):
    it = cell()
    it.play()
    assert it.history[-1]["trust"]
    monkeypatch.setattr(type(it.defense), "accepts", lambda *_, **__: False)
    told = it.play()
    assert told["kept_because"] == "no update was left"
    assert told["trust"] == {}


def test_abstentions_and_faults_are_summed_up():
    facts = finished(cell(rounds=5)).facts
    assert 0 <= facts["share_of_abstentions"] < 1
    assert facts["faults"] == 0


def test_warming_up_takes_the_median_and_everybody():
    it = cell(defense_parameters={"warmup": 1})
    it.defense.memory["global"][:] = np.arange(20)
    it.defense.memory["local"][:, 3] = -1
    assert it.select().min() < 5
    selected = np.arange(10)
    updates = it.train(selected)
    view = it.defense.transmit(0, it.weights, selected, Sent(updates, updates))
    assert len(view.updates) == 10
    factor = 10 * it.defense.setting.sizes.mean() / view.sizes.sum()
    np.testing.assert_allclose(
        it.defense.aggregate(view), np.median(view.updates, axis=0) * factor, rtol=1e-4, atol=1e-6
    )


def test_ffl_is_a_protocol_and_says_so():
    with pytest.raises(ParameterError, match=r'"ffl" needs more than a matrix of updates'):
        aggregate("ffl", np.zeros((4, 3), np.float32))


def test_mixing_with_another_rule_leaves_it_the_mixed_rows():
    for rule in ("median", "trimmed-mean"):
        it = cell(defense="ffl-mixing", defense_parameters={"rule": rule})
        selected = it.select()
        updates = it.train(selected)
        view = it.transmit(selected, Sent(updates, updates))
        factor = 10 * it.defense.setting.sizes.mean() / view.sizes.sum()
        wanted = aggregate(rule, view.updates) * factor
        np.testing.assert_allclose(it.defense.aggregate(view), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["ffl", "ffl-mixing"])
def test_nobody_can_mix_alone(name):
    with pytest.raises(ParameterError, match="mixing takes two: per_round = 1"):
        cell(defense=name, per_round=1)
