"""Feedback from the server to participants, and the price of rows that are not finite."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fflbench import registry
from fflbench.crypto.messages import SERVER, Feedback
from fflbench.federation import Attack, Sent
from fflbench.federation.rounds import Federation
from fflbench.measures.robustness import outcome
from fflbench.registry import Kind
from tests.defenses.ffl_cells import cell, create, quartile, slow_scores
from tests.played import finished


@dataclass(kw_only=True)
class SendsNan(Attack):
    """Attackers whose update holds nothing but NaN."""

    def poison_updates(self, known):
        return np.full_like(known.updates, np.nan)


def attacked(strategy=1, share=0.2, seed=0, defense="ffl", defense_parameters=None, rounds=3):
    task = create(Kind.TASK, "digits-mlp", rounds=rounds)
    defense = create(Kind.DEFENSE, defense, **(defense_parameters or {}))
    return Federation(task, SendsNan(strategy=strategy, share=share), defense, seed)


def transmitted(it):
    selected = it.select()
    return it.transmit(selected, it.poison(selected, it.train(selected)))


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_feedback_is_the_difference_in_single_precision_and_is_what_participants_learn(monkeypatch, mode):
    it = cell(defense_parameters={"mode": mode})
    delivered = []
    inherited = type(it.defense).deliver

    def spying(self, round, feedback):
        delivered.extend(feedback)
        inherited(self, round, feedback)

    monkeypatch.setattr(type(it.defense), "deliver", spying)
    view = transmitted(it)
    it.aggregate(view)
    sim = slow_scores(view.updates, it.model.columns.last_layer, 0.2)
    assert [message.receiver for message in delivered] == view.participants.tolist()
    for message, value in zip(delivered, sim, strict=True):
        assert (message.round, message.sender) == (0, SERVER)
        assert len(message.difference) == 4
        carried = np.frombuffer(message.difference, "<f4")[0]
        assert carried == pytest.approx(value - quartile(sim), abs=1e-5)
        who = message.receiver
        assert it.defense.memory["local"][who, it.defense.partner[who]] == carried


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_altered_feedback_alters_the_local_reputation_and_nothing_else_does(monkeypatch, mode):
    it = cell(defense_parameters={"mode": mode})
    inherited = type(it.defense).deliver

    def altering(self, round, feedback):
        altered = [replace(message, difference=np.float32(0.25).tobytes()) for message in feedback[:-1]]
        inherited(self, round, altered)

    monkeypatch.setattr(type(it.defense), "deliver", altering)
    view = transmitted(it)
    it.aggregate(view)
    *heard, deaf = view.participants.tolist()
    local, partner = it.defense.memory["local"], it.defense.partner
    assert [local[who, partner[who]] for who in heard] == [0.25] * len(heard)
    assert not local[deaf].any()


def test_feedback_that_cannot_be_read_teaches_nothing_and_is_counted():
    it = cell(defense_parameters={"mode": "full"})
    view = transmitted(it)
    who = int(view.participants[0])
    it.defense.deliver(0, [Feedback(0, SERVER, who, b"abc"), Feedback.of(1, who, 0.5)])
    assert not it.defense.memory["local"].any()
    assert it.defense.report()["faults"] == [
        "in feedback: feedback that is no finite number of four bytes",
        "in feedback: feedback of another round",
    ]


def test_both_modes_learn_the_same_bits_over_several_rounds(monkeypatch):
    def by_names(_, round, initiator, acceptor, size):
        return np.random.default_rng([round, initiator, acceptor]).integers(2, size=size, dtype=np.uint8)

    monkeypatch.setattr("fflbench.crypto.pads.mask", by_names)
    memories = []
    for mode in ("fast", "full"):
        it = attacked(defense_parameters={"mode": mode}, rounds=4)
        it.run()
        memories.append([it.defense.memory[name].tobytes() for name in ("global", "local")] + [it.weights.tobytes()])
    assert memories[0] == memories[1]


def test_penalising_is_the_default():
    assert create(Kind.DEFENSE, "ffl").non_finite == "penalise"
    assert registry.get(Kind.DEFENSE, "ffl").version > 1


@pytest.mark.parametrize("non_finite", ["spare", "penalise"])
@pytest.mark.parametrize("mode", ["fast", "full"])
def test_a_row_that_is_not_finite_scores_zero_for_its_sender(non_finite, mode):
    it = cell(defense_parameters={"non_finite": non_finite, "mode": mode})
    selected = it.select()
    updates = it.train(selected)
    updates[2] = np.nan
    view = it.transmit(selected, Sent(updates, updates))
    sender, partner = int(selected[2]), it.defense.partner[int(selected[2])]
    assert set(view.dropped) == {sender, partner}
    it.aggregate(view)
    difference = 0 - quartile(slow_scores(view.updates, it.model.columns.last_layer, 0.2))
    gamma, zeta = it.defense.memory["global"], it.defense.memory["local"]
    for who, other in ((sender, partner), (partner, sender)):
        assert gamma[who] == (pytest.approx(difference, abs=1e-5) if non_finite == "penalise" else 0)
        assert zeta[who, other] == pytest.approx(difference, abs=1e-5)
    assert difference < -0.1


@pytest.mark.parametrize("non_finite", ["spare", "penalise"])
def test_a_round_in_which_every_row_is_not_finite_penalises_as_well(non_finite):
    it = attacked(share=1.0, defense_parameters={"non_finite": non_finite})
    told = it.play()
    assert told["kept_because"] == "no update was left"
    assert len(told["dropped"]) == 10
    gamma, zeta = it.defense.memory["global"], it.defense.memory["local"]
    for who in told["dropped"]:
        assert zeta[who, it.defense.partner[who]] == -1
        assert gamma[who] == (-1 if non_finite == "penalise" else 0)
    assert gamma.sum() == sum(gamma[told["dropped"]])
    assert told["trust"] == {}


def test_who_planted_nan_is_no_longer_selected_once_penalised():
    it = attacked(rounds=30)
    history = finished(it).history
    assert sum(told["attackers_selected"] for told in history[-10:]) <= 2


@pytest.mark.parametrize("defense", ["ffl", "ffl-mixing"])
@pytest.mark.parametrize("strategy", [1, 3])
def test_honest_participants_whose_partner_planted_nan_are_counted_as_framed(defense, strategy):
    it = attacked(strategy, defense=defense, rounds=5)
    framed = set()
    for _ in range(5):
        told = it.play()
        victims = {other for who, other in it.defense.partner.items() if who in it.attackers} - set(it.attackers)
        assert victims <= set(told["dropped"])
        assert set(told["framed"]) == victims
        framed |= victims
    facts = outcome(it).facts
    assert facts["share_of_honest_framed"] == len(framed) / 16 > 0
    assert facts["framed_rows"] == sum(len(told["framed"]) for told in it.history)


def test_nobody_is_framed_by_itself():
    it = cell()
    selected = it.select()
    updates = it.train(selected)
    updates[2] = np.nan
    sender = int(selected[2])
    it.transmit(selected, Sent(updates, updates))
    assert it.defense.report()["framed"] == [it.defense.partner[sender]]


def test_nan_that_stays_where_it_was_frames_nobody(monkeypatch):
    monkeypatch.setattr("fflbench.crypto.pads.mask", lambda *_: np.zeros(_[-1], np.uint8))
    it = attacked()
    told = it.play()
    assert set(told["dropped"]) <= set(it.attackers)
    assert told["framed"] == []
