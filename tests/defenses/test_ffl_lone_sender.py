"""Attackers whom all refuse, and who submit all the same."""

import numpy as np
import pytest

from fflbench.measures.robustness import outcome
from tests.defenses.ffl_cells import by_name, cell
from tests.played import finished


def refused(mode="fast", defense="ffl", **attack_parameters):
    """A cell in which every honest participant refuses every attacker."""
    it = cell(
        "gaussian-noise",
        defense,
        attack_parameters={"avoid_each_other": True, **attack_parameters},
        defense_parameters={"mode": mode},
    )
    if defense == "ffl":
        it.defense.memory["local"][:, it.attackers] = -1
    return it


def played(it):
    """The round's rows by sender, and what each attacker would have submitted by itself."""
    selected = it.select()
    sent = it.poison(selected, it.train(selected))
    own = by_name(it, selected, sent.submitted)
    view = it.transmit(selected, sent)
    attackers = [int(who) for who in selected if who in it.attackers]
    return view, own, attackers


@pytest.mark.parametrize("mode", ["fast", "full"])
@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_a_lone_sender_submits_its_own_row_unmixed(mode, strategy):
    it = refused(mode, lone_sender=True, strategy=strategy)
    view, own, attackers = played(it)
    rows = dict(zip(view.participants.tolist(), view.updates, strict=True))
    assert attackers
    for who in attackers:
        assert rows[who].tobytes() == own[who].tobytes()
        assert who not in it.defense.partner
    told = it.defense.report()
    assert told["lone"] == attackers
    assert not set(told["abstained"]) & set(attackers)


def test_without_it_whoever_is_refused_abstains():
    it = refused(strategy=2)
    view, _, attackers = played(it)
    assert not set(attackers) & set(view.participants)
    told = it.defense.report()
    assert set(attackers) <= set(told["abstained"])
    assert told["lone"] == []


def test_an_attacker_with_a_partner_is_no_lone_sender():
    it = cell("gaussian-noise", attack_parameters={"lone_sender": True})
    view, own, attackers = played(it)
    rows = dict(zip(view.participants.tolist(), view.updates, strict=True))
    with_partner = [who for who in attackers if who in it.defense.partner]
    assert with_partner
    for who in with_partner:
        assert 0.4 < (rows[who] == own[who]).mean() < 0.6


def test_honest_participants_never_submit_alone():
    it = cell("gaussian-noise", attack_parameters={"lone_sender": True})
    it.defense.memory["local"][:] = -1
    honest = next(int(who) for who in it.select() if who not in it.attackers)
    it.defense.memory["local"][:, honest] = -2
    it.attackers = np.setdiff1d(it.attackers, it.select())
    view, _, _ = played(it)
    assert honest not in view.participants
    assert it.defense.report()["lone"] == []


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_feedback_to_a_lone_sender_touches_no_local_reputation(mode):
    it = refused(mode, lone_sender=True)
    before = it.defense.memory["local"].copy()
    view, _, attackers = played(it)
    it.aggregate(view)
    np.testing.assert_array_equal(it.defense.memory["local"][attackers], before[attackers])
    assert (it.defense.memory["global"][attackers] != 0).any()


def test_lone_senders_are_the_same_to_the_bit_in_both_modes(monkeypatch):
    def by_names(_, round, initiator, acceptor, size):
        return np.random.default_rng([round, initiator, acceptor]).integers(2, size=size, dtype=np.uint8)

    monkeypatch.setattr("fflbench.crypto.pads.mask", by_names)
    found = []
    for mode in ("fast", "full"):
        it = refused(mode, lone_sender=True)
        told = finished(it)
        found.append((it.weights.tobytes(), it.defense.memory["local"].tobytes(), told.facts["lone_submissions"]))
    assert found[0] == found[1]
    assert found[0][2] > 0


def test_lone_submissions_are_counted_in_bytes_and_in_the_record():
    it = refused("full", lone_sender=True)
    told = it.play()
    pairs, alone = len(it.defense.partner) // 2, len(told["lone"])
    assert alone > 0
    assert told["bytes_so_far"]["mixed update"] == (2 * pairs + alone) * 4 * it.model.columns.count
    assert told["bytes_so_far"]["sealed seed"] == (4 * pairs + alone) * 384
    assert outcome(it).facts["lone_submissions"] == alone
    assert outcome(it).facts["share_of_abstentions"] == (10 - 2 * pairs - alone) / 10


def test_mixing_without_reputations_has_lone_senders_too():
    it = cell(
        "gaussian-noise", "ffl-mixing", attack_parameters={"lone_sender": True, "share": 1.0, "avoid_each_other": True}
    )
    told = it.play()
    assert len(told["lone"]) == 10
