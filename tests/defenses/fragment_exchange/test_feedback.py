"""Feedback from the server to participants, and the price of rows that are not finite."""

from dataclasses import dataclass

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange import transport

from fflbench.crypto import keystream
from fflbench.federation import Attack
from fflbench.federation.messages import SERVER, FeedbackMessage
from fflbench.measures.robustness import outcome_of_federation
from fflbench.references.reputation import quartile
from fflbench.references.reputation import similarity_scores as slow_scores
from tests.defenses.fragment_exchange.cells import cell, mask_by_names, transmitted
from tests.played import finished


@dataclass(kw_only=True)
class SendsNan(Attack):
    """Attackers whose update holds nothing but NaN."""

    def poison_updates(self, known):
        return np.full_like(known.updates, np.nan)


def attacked(strategy=1, share=0.2, **fields):
    return cell(SendsNan(share=share), deviation={"strategy": strategy}, **fields)


@pytest.fixture
def delivered(monkeypatch):
    """Feedback as the transport is given it, after `alter` had its way."""
    seen, inherited = {}, transport.FragmentExchange.deliver

    def build(alter=lambda feedback: feedback):
        def spying(self, transcript, feedback):
            seen.update(feedback)
            inherited(self, transcript, alter(feedback))

        monkeypatch.setattr(transport.FragmentExchange, "deliver", spying)
        return seen

    return build


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_participants_learn_the_difference_in_single_precision(delivered, mode):
    it, seen = cell(defense_parameters={"mode": mode}), delivered()
    transcript = transmitted(it)
    view = transcript.server
    it.aggregate(transcript)
    sim = slow_scores(view.rows, it.model.columns.last_layer, 0.2)
    assert list(seen) == view.participants.tolist()
    local, partner = it.defense.transport.memory["local"], it.defense.transport.partner
    for (who, difference), value in zip(seen.items(), sim, strict=True):
        assert difference == pytest.approx(value - quartile(sim), abs=1e-5)
        assert local[who, partner[who]] == np.float32(difference)
    assert np.count_nonzero(local) == np.count_nonzero(list(seen.values()))


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_altered_feedback_alters_the_local_reputation_and_nothing_else_does(delivered, mode):
    it = cell(defense_parameters={"mode": mode})
    delivered(lambda feedback: dict.fromkeys(list(feedback)[:-1], 0.25))
    transcript = transmitted(it)
    it.aggregate(transcript)
    *heard, deaf = transcript.server.participants.tolist()
    local, partner = it.defense.transport.memory["local"], it.defense.transport.partner
    assert [local[who, partner[who]] for who in heard] == [0.25] * len(heard)
    assert not local[deaf].any()


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (lambda who: FeedbackMessage(0, SERVER, who, b"abc"), "feedback that is no finite number of four bytes"),
        (lambda who: FeedbackMessage(0, SERVER, who, bytes([0, 0, 192, 127])), "feedback that is no finite number"),
        (lambda who: FeedbackMessage(1, SERVER, who, bytes(4)), "feedback of another round"),
        (lambda who, of=FeedbackMessage.of: of(0, who, -1e39), "feedback that is no finite number"),
    ],
)
@pytest.mark.parametrize("mode", ["fast", "full"])
def test_feedback_that_cannot_be_read_teaches_nothing_and_is_counted(monkeypatch, mode, message, fault):
    it = cell(defense_parameters={"mode": mode})
    transcript = transmitted(it)
    who = int(transcript.server.participants[0])
    monkeypatch.setattr(FeedbackMessage, "of", lambda round, receiver, value: message(receiver))
    it.defense.transport.deliver(transcript, {who: 0.5})
    assert not it.defense.transport.memory["local"].any()
    (found,) = transcript.facts["faults"]
    assert found.startswith(f"in feedback: {fault}")


def test_both_modes_learn_the_same_bits_over_several_rounds(monkeypatch):
    monkeypatch.setattr(keystream, "random_mask", mask_by_names)
    memories = []
    for mode in ("fast", "full"):
        it = attacked(defense_parameters={"mode": mode}, rounds=4)
        it.run()
        arrays = it.defense.rule.memory["global"], it.defense.transport.memory["local"], it.weights
        memories.append([array.tobytes() for array in arrays])
    assert memories[0] == memories[1]


@pytest.mark.parametrize("non_finite", ["spare", "penalise"])
@pytest.mark.parametrize("mode", ["fast", "full"])
def test_a_row_that_is_not_finite_scores_zero_for_its_sender(non_finite, mode):
    it = cell(defense_parameters={"non_finite": non_finite, "mode": mode})
    selected = it.select()
    updates = it.train(selected)
    updates[2] = np.nan
    transcript = it.transmit(selected, updates)
    view, sender = transcript.server, int(selected[2])
    partner = it.defense.transport.partner[sender]
    assert set(view.dropped) == {sender, partner}
    it.aggregate(transcript)
    difference = 0 - quartile(slow_scores(view.rows, it.model.columns.last_layer, 0.2))
    gamma, zeta = it.defense.rule.memory["global"], it.defense.transport.memory["local"]
    for who, other in ((sender, partner), (partner, sender)):
        assert gamma[who] == (pytest.approx(difference, abs=1e-5) if non_finite == "penalise" else 0)
        assert zeta[who, other] == pytest.approx(difference, abs=1e-5)
    assert difference < -0.1


@pytest.mark.parametrize("non_finite", ["spare", "penalise"])
def test_a_round_in_which_every_row_is_not_finite_penalises_as_well(non_finite):
    it = attacked(share=1.0, defense_parameters={"non_finite": non_finite})
    told = it.run_round()
    assert told["kept_because"] == "no update was left"
    assert len(told["dropped"]) == 10
    gamma, zeta = it.defense.rule.memory["global"], it.defense.transport.memory["local"]
    for who in told["dropped"]:
        assert zeta[who, it.defense.transport.partner[who]] == -1
        assert gamma[who] == (-1 if non_finite == "penalise" else 0)
    assert gamma.sum() == sum(gamma[told["dropped"]])
    assert told["trust"] == {}


def test_who_planted_nan_is_no_longer_selected_once_penalised():
    it = attacked(rounds=30)
    history = finished(it).history
    assert sum(told["attackers_selected"] for told in history[-10:]) <= 2


@pytest.mark.parametrize("defense", ["ffl", "fragment-exchange + median"])
@pytest.mark.parametrize("strategy", [1, 3])
def test_honest_participants_whose_partner_planted_nan_are_counted_as_framed(defense, strategy):
    it = attacked(strategy, defense=defense, rounds=5)
    framed = set()
    for _ in range(5):
        told = it.run_round()
        victims = {other for who, other in it.defense.transport.partner.items() if who in it.attackers} - set(
            it.attackers
        )
        assert victims <= set(told["dropped"])
        assert set(told["framed"]) == victims
        framed |= victims
    facts = outcome_of_federation(it).facts
    assert facts["share_of_honest_framed"] == len(framed) / 16 > 0
    assert facts["framed_rows"] == sum(len(told["framed"]) for told in it.history)


def test_nobody_is_framed_by_itself():
    it = cell()
    selected = it.select()
    updates = it.train(selected)
    updates[2] = np.nan
    sender = int(selected[2])
    transcript = it.transmit(selected, updates)
    assert transcript.facts["framed"] == [it.defense.transport.partner[sender]]


def test_nan_that_stays_where_it_was_frames_nobody(monkeypatch):
    monkeypatch.setattr(keystream, "random_mask", lambda *_: np.zeros(_[-1], np.uint8))
    it = attacked()
    told = it.run_round()
    assert set(told["dropped"]) <= set(it.attackers)
    assert told["framed"] == []
