"""Attackers whom all refuse, and who submit all the same."""

import numpy as np
import pytest

from fflbench.crypto import keystream
from fflbench.measures.robustness import outcome_of_federation
from tests.defenses.fragment_exchange.cells import by_name, cell, mask_by_names, rows_by_sender
from tests.played import finished


def refused(mode="fast", **deviation):
    """A cell in which every honest participant refuses every attacker."""
    it = cell("gaussian-noise", defense_parameters={"mode": mode}, deviation={"avoid_each_other": True, **deviation})
    it.defense.transport.memory["local"][:, it.attackers] = -1
    return it


def played(it):
    """The round's transcript, what each attacker would submit by itself, and the attackers who were selected."""
    selected = it.select()
    updates = it.train(selected)
    it.poison(selected, updates)
    attackers = np.intersect1d(selected, it.attackers)
    clean = it.participants.clean_updates(it.weights, attackers, 0)
    rows = clean(attackers) if it.deviation.strategy == 3 else updates[np.isin(selected, attackers)]
    own = by_name(it, attackers, rows)
    return it.transmit(selected, updates), own, attackers.tolist()


@pytest.mark.parametrize("mode", ["fast", "full"])
@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_a_lone_sender_submits_its_own_row_unmixed(mode, strategy):
    it = refused(mode, lone_sender=True, strategy=strategy)
    transcript, own, attackers = played(it)
    rows = rows_by_sender(transcript.server)
    assert attackers
    for who in attackers:
        assert rows[who].tobytes() == own[who].tobytes()
        assert who not in it.defense.transport.partner
    assert transcript.facts["lone"] == attackers
    assert not set(transcript.facts["abstained"]) & set(attackers)


def test_without_it_whoever_is_refused_abstains():
    it = refused(strategy=2)
    transcript, _, attackers = played(it)
    assert not set(attackers) & set(transcript.server.participants)
    assert set(attackers) <= set(transcript.facts["abstained"])
    assert transcript.facts["lone"] == []


def test_an_attacker_with_a_partner_is_no_lone_sender():
    it = cell("gaussian-noise", deviation={"lone_sender": True})
    transcript, own, attackers = played(it)
    rows = rows_by_sender(transcript.server)
    with_partner = [who for who in attackers if who in it.defense.transport.partner]
    assert with_partner
    for who in with_partner:
        assert 0.4 < (rows[who] == own[who]).mean() < 0.6


def test_honest_participants_never_submit_alone():
    it = cell("gaussian-noise", deviation={"lone_sender": True})
    it.defense.transport.memory["local"][:] = -1
    honest = next(int(who) for who in it.select() if who not in it.attackers)
    it.defense.transport.memory["local"][:, honest] = -2
    it.participants.attackers = np.setdiff1d(it.attackers, it.select())
    transcript, _, _ = played(it)
    assert honest not in transcript.server.participants
    assert transcript.facts["lone"] == []


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_feedback_to_a_lone_sender_touches_no_local_reputation(mode):
    it = refused(mode, lone_sender=True)
    before = it.defense.transport.memory["local"].copy()
    transcript, _, attackers = played(it)
    it.aggregate(transcript)
    np.testing.assert_array_equal(it.defense.transport.memory["local"][attackers], before[attackers])
    assert (it.defense.rule.memory["global"][attackers] != 0).any()


def test_lone_senders_are_the_same_to_the_bit_in_both_modes(monkeypatch):
    monkeypatch.setattr(keystream, "random_mask", mask_by_names)
    found = []
    for mode in ("fast", "full"):
        it = refused(mode, lone_sender=True)
        told = finished(it)
        found.append(
            (it.weights.tobytes(), it.defense.transport.memory["local"].tobytes(), told.facts["lone_submissions"])
        )
    assert found[0] == found[1]
    assert found[0][2] > 0


def test_lone_submissions_are_counted_in_bytes_and_in_the_record():
    it = refused("full", lone_sender=True)
    told = it.run_round()
    pairs, alone = len(it.defense.transport.partner) // 2, len(told["lone"])
    assert alone > 0
    assert told["bytes"]["mixed update"] == (2 * pairs + alone) * 4 * it.model.columns.count
    assert told["bytes"]["sealed seed"] == (4 * pairs + alone) * 384
    assert outcome_of_federation(it).facts["lone_submissions"] == alone
    assert outcome_of_federation(it).facts["share_of_abstentions"] == (10 - 2 * pairs - alone) / 10


def test_an_exchange_without_reputations_has_lone_senders_too():
    it = cell(
        "gaussian-noise",
        "fragment-exchange + median",
        attack_parameters={"share": 1.0},
        deviation={"lone_sender": True, "avoid_each_other": True},
    )
    told = it.run_round()
    assert len(told["lone"]) == 10
