"""Fragmented federated learning against its paper, written slowly, and against everything PROTOCOL settles."""

import math
from dataclasses import fields

import numpy as np
import pytest
from fflbench.defenses.rules import reputation
from fflbench.defenses.transports.fragment_exchange import transport

from fflbench import aggregate
from fflbench.crypto import keystream
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.rsa_oaep import ServerPublicKey
from fflbench.errors import ParameterError
from fflbench.federation import View
from fflbench.references.reputation import quartile
from fflbench.references.reputation import similarity_scores as slow_scores
from tests.defenses.fragment_exchange.cells import by_name, cell, mask_by_names, rows_by_sender, transmitted
from tests.played import finished


def test_reputations_follow_the_papers_equations():
    it = cell(attack="gaussian-noise", rounds=5)
    gamma, zeta = np.zeros(20), np.zeros((20, 20))
    for _ in range(5):
        transcript = transmitted(it)
        view = transcript.server
        sim = slow_scores(view.rows, it.model.columns.last_layer, 0.2)
        difference = [value - quartile(sim) for value in sim]
        for who, value in zip(view.participants, difference, strict=True):
            gamma[who] += value
            zeta[who, it.defense.transport.partner[who]] += value
        before = it.weights.copy()
        it.aggregate(transcript)
        trust = [max(math.tanh(gamma[who] - quartile(gamma)), 0) for who in view.participants]
        np.testing.assert_allclose(it.defense.rule.memory["global"], gamma, atol=1e-5)
        np.testing.assert_allclose(it.defense.transport.memory["local"], zeta, atol=1e-5)
        wanted = np.average(view.rows.astype(np.float64), axis=0, weights=trust if any(trust) else None)
        factor = len(view.sizes) * it.defense.setting.sizes.mean() / view.sizes.sum()
        np.testing.assert_allclose(it.weights - before, wanted * factor, atol=1e-4)
        it.round += 1


@pytest.mark.parametrize("partition", ["iid", "dirichlet"])
@pytest.mark.parametrize("mode", ["fast", "full"])
def test_with_equal_trust_and_complete_pairs_the_aggregate_is_fedavgs(monkeypatch, partition, mode):
    monkeypatch.setattr(reputation, "similarity_scores", lambda updates, *_: np.ones(len(updates)))
    it = cell(partition=partition, defense_parameters={"mode": mode})
    selected = it.select()
    updates = it.train(selected)
    sizes = it.defense.setting.sizes[selected]
    wanted = aggregate("fedavg", updates.astype(np.float64), weights=sizes)
    transcript = it.transmit(selected, updates)
    assert len(transcript.server.rows) == 10
    found = it.defense.aggregate(transcript)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert len(set(sizes)) > 1


@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_both_modes_give_the_same_bits_with_the_same_masks(monkeypatch, strategy):
    monkeypatch.setattr(keystream, "random_mask", mask_by_names)
    views = []
    for mode in ("fast", "full"):
        it = cell("gaussian-noise", deviation={"strategy": strategy}, defense_parameters={"mode": mode})
        views.append(transmitted(it).server)
    assert views[0].rows.tobytes() == views[1].rows.tobytes()
    assert views[0].participants.tolist() == views[1].participants.tolist()


def test_mixed_rows_are_permutations_of_the_partners_rows():
    it = cell(defense="fragment-exchange + median")
    selected = it.select()
    updates = it.train(selected)
    original = by_name(it, selected, updates)
    mixed = rows_by_sender(it.transmit(selected, updates).server)
    for who, row in mixed.items():
        partner = it.defense.transport.partner[who]
        own = row == original[who]
        theirs = row == original[partner]
        assert (own | theirs).all()
        np.testing.assert_array_equal(row + mixed[partner], original[who] + original[partner])
        assert abs(own.mean() - 0.5) < 0.1


def test_the_server_is_told_no_pairs():
    names = {field.name for field in fields(View)}
    assert not any("pair" in name or "partner" in name for name in names)


def pairs_of(it, attackers=()):
    it.participants.attackers = np.array(attackers, int)
    rows = np.random.default_rng(0).normal(size=(10, it.model.columns.count)).astype(np.float32)
    transcript = it.transmit(np.arange(10), rows)
    return it.defense.transport.partner, transcript.facts["abstained"]


def test_both_sides_must_accept():
    it = cell()
    # Everybody thinks little of 3.
    it.defense.transport.memory["local"][:, 3] = -1
    partner, abstained = pairs_of(it)
    assert 3 not in partner
    assert 3 in abstained
    assert len(partner) % 2 == 0


def test_attackers_accept_everyone():
    it = cell()
    it.defense.transport.memory["local"][:, 3] = -1
    partner, _ = pairs_of(it, attackers=[7])
    assert partner[3] == 7


def test_the_literal_acceptance_leaves_nobody_at_the_start():
    it = cell(defense_parameters={"acceptance": "literal"}, rounds=1)
    told = it.run_round()
    assert len(told["abstained"]) == 10
    assert told["kept_because"] == "no update was left"


def test_who_abstains_sends_nothing():
    it = cell(attack="none")
    refused = it.select()[0]
    it.defense.transport.memory["local"][:, refused] = -1
    transcript = transmitted(it)
    participants = transcript.server.participants
    assert refused not in participants
    assert set(participants) == set(it.defense.transport.partner)
    assert len(participants) + len(transcript.facts["abstained"]) == 10


def test_reputation_keeps_poisoners_out():
    it = cell("gaussian-noise", rounds=25)
    outcome = finished(it)
    late = outcome.history[-5:]
    assert sum(told["attackers_selected"] for told in late) <= 1
    assert set(it.attackers) <= set(outcome.facts["excluded"])
    assert outcome.facts["honest_excluded"] == len(outcome.facts["excluded"]) - 4
    assert outcome.metrics["accuracy"] > 0.93


@pytest.mark.parametrize(
    ("side", "step"), [("Acceptor", "answer_offer"), ("Initiator", "reply_to_answer"), ("Acceptor", "finish_exchange")]
)
@pytest.mark.parametrize("fault", ["a message whose MAC does not hold", "a partner that fell silent"])
def test_a_fault_between_partners_silences_both_and_is_counted(monkeypatch, side, step, fault):
    it = cell(defense_parameters={"mode": "full"}, rounds=2)
    broken, party = [], getattr(transport, side)
    inherited = getattr(party, step)

    def faulty(self, message):
        if not broken:
            broken.append({self.name, self.partner})
            raise ProtocolError(fault)
        return inherited(self, message)

    monkeypatch.setattr(party, step, faulty)
    transcript = transmitted(it)
    assert set(it.select()) - set(transcript.server.participants) == broken[0]
    assert transcript.facts["faults"] == [f"between partners: {fault}"]
    assert it.aggregate(transcript) == ""


def test_a_fault_that_only_the_server_sees_drops_that_row_alone(monkeypatch):
    it = cell(defense_parameters={"mode": "full"}, rounds=2)
    damaged = []
    seal = ServerPublicKey.encrypt

    def once(self, seed, entropy, round, *purpose):
        sealed = seal(self, seed, entropy, round, *purpose)
        if not damaged:
            damaged.append(purpose[0])
            return bytes(len(sealed))
        return sealed

    monkeypatch.setattr(ServerPublicKey, "encrypt", once)
    told = it.run_round()
    assert told["faults"] == ["at the server: a sealed seed that does not open"]
    assert len(told["trust"]) == 9
    assert str(it.defense.transport.partner[damaged[0]]) not in told["trust"]


def test_bytes_are_those_of_real_messages():
    it = cell(defense_parameters={"mode": "full"}, rounds=1)
    told = it.run_round()
    d, pairs = 4 * it.model.columns.count, 5
    assert told["bytes"] == {
        "global model": pairs * 2 * d,
        "power": pairs * 2 * 256,
        "sealed seed": pairs * 4 * 384,
        "masked vector": pairs * 4 * d,
        "mixed update": pairs * 2 * d,
        "feedback": pairs * 2 * 4,
        "mac": pairs * 2 * 32,
        "framing": pairs * ((17 + 16) + (17 + 40) + (17 + 24) + 2 * (17 + 16) + 2 * (17 + 8) + 2 * (17 + 8)),
    }
    assert "bytes" not in cell(rounds=1).run_round()


def test_nothing_secret_is_in_what_is_told():
    it = cell(defense_parameters={"mode": "full"}, rounds=1)
    told = it.run_round()
    assert set(told) - {
        "trust",
        "honest_trust",
        "attacker_trust",
        "honest_trust_of_all",
        "attacker_trust_of_all",
        "reputation",
        "excluded",
        "abstained",
        "faults",
        "framed",
        "lone",
        "partner_decisions",
        "bytes",
    } == set(cell(rounds=1, defense="fedavg").run_round())


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


def test_abstentions_and_faults_are_summed_up():
    facts = finished(cell(rounds=5)).facts
    assert 0 <= facts["share_of_abstentions"] < 1
    assert facts["faults"] == 0


def test_refusals_of_attackers_and_of_honest_participants_are_counted():
    it = cell("label-flipping", rounds=1)
    attackers = it.attackers.tolist()
    honest = np.setdiff1d(np.arange(20), attackers)
    # Every honest participant thinks little of all attackers and of one honest participant.
    it.defense.transport.memory["local"][:, [*attackers, honest[0]]] = -1
    selected = np.sort([*attackers[:2], *honest[:8]])
    decisions = it.transmit(selected, it.train(selected)).facts["partner_decisions"]
    assert decisions["attackers"]["accepted"] == 0
    assert decisions["attackers"]["refused"] > 0
    assert decisions["honest"]["refused"] > 0
    assert decisions["honest"]["accepted"] >= 6


def test_shares_of_refusals_are_over_all_rounds():
    it = cell("label-flipping", rounds=5)
    facts = finished(it).facts
    for side in ("attackers", "honest"):
        counts = [item["partner_decisions"][side] for item in it.history]
        refused, accepted = (sum(count[what] for count in counts) for what in ("refused", "accepted"))
        assert facts[f"share_of_{side}_refused"] == refused / (refused + accepted)
    # A run that goes on from an older checkpoint has rounds without them.
    older = [{name: value for name, value in item.items() if name != "partner_decisions"} for item in it.history]
    assert it.defense.transport.summary(older, it.attackers)["share_of_attackers_refused"] is None


def test_warming_up_takes_the_median_and_everybody():
    it = cell(defense_parameters={"warmup": 1})
    it.defense.rule.memory["global"][:] = np.arange(20)
    it.defense.transport.memory["local"][:, 3] = -1
    assert it.select().min() < 5
    selected = np.arange(10)
    transcript = it.transmit(selected, it.train(selected))
    view = transcript.server
    assert len(view.rows) == 10
    factor = 10 * it.defense.setting.sizes.mean() / view.sizes.sum()
    np.testing.assert_allclose(
        it.defense.aggregate(transcript), np.median(view.rows, axis=0) * factor, rtol=1e-4, atol=1e-6
    )


def test_ffl_is_a_protocol_and_says_so():
    with pytest.raises(ParameterError, match=r'"ffl" needs more than a matrix of updates'):
        aggregate("ffl", np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("rule", ["median", "trimmed-mean", "clipping + median"])
def test_another_rule_behind_the_exchange_works_on_mixed_rows(rule):
    it = cell(defense=f"fragment-exchange + {rule}")
    selected = it.select()
    transcript = it.transmit(selected, it.train(selected))
    factor = 10 * it.defense.setting.sizes.mean() / transcript.server.sizes.sum()
    wanted = aggregate(rule, transcript.server.rows) * factor
    np.testing.assert_allclose(it.defense.aggregate(transcript), wanted, rtol=1e-5, atol=1e-7)


def test_ffl_is_the_exchange_and_reputations_to_the_bit():
    found = []
    for defense in ("ffl", "fragment-exchange + reputation"):
        it = cell("gaussian-noise", defense, deviation={"strategy": 2})
        outcome = finished(it)
        found.append((it.weights.tobytes(), outcome.history, outcome.metrics, outcome.facts))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["ffl", "fragment-exchange + median"])
def test_nobody_can_exchange_alone(name):
    with pytest.raises(ParameterError, match="an exchange takes two: per_round = 1"):
        cell(defense=name, per_round=1)
