"""Attackers who choose victims: they plant poison or NaN in the rows of these alone."""

import numpy as np
import pytest

from fflbench.crypto import keystream
from tests.defenses.fragment_exchange.cells import by_name, cell, mask_by_names, rows_by_sender, transmitted
from tests.played import finished

CHOSEN = 4
"""Number of the first participants, of whom the honest ones are victims."""


def framing(attack="non-finite", strategy=3, victims=CHOSEN, **choices):
    return cell(attack, deviation={"strategy": strategy, "victims": victims}, **choices)


def victims_of(it):
    return set(range(CHOSEN)) - set(it.attackers.tolist())


def test_only_rows_of_chosen_victims_are_made_nan():
    it = framing(rounds=12)
    outcome = finished(it)
    framed = {who for item in outcome.history for who in item["framed"]}
    assert framed
    assert framed <= victims_of(it)
    assert [item["framed"] for item in outcome.history] == [item["attacked_victims"] for item in outcome.history]
    # Attackers submit clean updates, so that nobody else loses a row.
    assert all(item["dropped"] == item["framed"] for item in outcome.history)


def test_one_planted_nan_excludes_a_victim_for_good():
    it = framing(rounds=20)
    facts = finished(it).facts
    assert set(facts["victims"]) == victims_of(it)
    assert facts["framed_rows"] == len(victims_of(it))
    assert facts["share_of_victims_excluded"] == 1
    # A quarter is always excluded; the rest of it is up to chance.
    assert facts["share_of_other_honest_excluded"] == (5 - len(victims_of(it))) / (16 - len(victims_of(it)))
    assert facts["share_of_attackers_excluded"] == 0


def test_without_victims_attackers_frame_everybody():
    it = framing(victims=None, rounds=12)
    outcome = finished(it)
    framed = {who for item in outcome.history for who in item["framed"]}
    assert framed - victims_of(it)
    assert "victims" not in outcome.facts
    assert not any("attacked_victims" in item for item in outcome.history)


def test_honest_updates_as_poison_frame_nobody():
    it = framing("none", attack_parameters={}, rounds=12)
    assert finished(it).facts["framed_rows"] == 0


@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_whoever_is_no_victim_gets_clean_fragments_as_agreed(strategy):
    it = framing("gaussian-noise", strategy, attack_parameters={"share": 0.5})
    selected = it.select()
    updates = it.train(selected)
    clean = by_name(it, selected, updates)
    it.poison(selected, updates)
    poisoned = by_name(it, selected, updates)
    rows = rows_by_sender(it.transmit(selected, updates).server)
    spared = attacked = 0
    for one, other in it.defense.transport.partner.items():
        if one in it.attackers and other in victims_of(it):
            attacked += 1
            assert 0.4 < (rows[other] == poisoned[one]).mean() < 0.6
        elif one in it.attackers:
            spared += 1
            np.testing.assert_allclose(rows[one] + rows[other], clean[one] + clean[other], atol=1e-4)
            assert not np.allclose(rows[one], clean[one], atol=1e-3)
    assert attacked
    assert spared


def test_attackers_ask_victims_first():
    def exchanges_with_victims(it):
        transmitted(it)
        partner = it.defense.transport.partner
        return sum(partner.get(int(who)) in victims_of(it) for who in it.attackers)

    counts = np.zeros(2)
    for round in range(10):
        for place, victims in enumerate((None, CHOSEN)):
            it = framing("gaussian-noise", victims=victims, participants=20, per_round=20)
            it.round = round
            counts[place] += exchanges_with_victims(it)
    assert counts[1] > 1.5 * counts[0]


def test_attackers_alone_submit_clean_updates():
    it = cell("gaussian-noise", deviation={"lone_sender": True, "victims": CHOSEN, "avoid_each_other": True})
    it.defense.transport.memory["local"][:, it.attackers] = -1
    selected = it.select()
    updates = it.train(selected)
    clean = by_name(it, selected, updates)
    it.poison(selected, updates)
    transcript = it.transmit(selected, updates)
    alone = transcript.facts["lone"]
    assert alone
    for who in alone:
        np.testing.assert_allclose(rows_by_sender(transcript.server)[who], clean[who], atol=1e-5)


def test_choosing_victims_gives_the_same_bits_in_both_modes(monkeypatch):
    monkeypatch.setattr(keystream, "random_mask", mask_by_names)
    found = []
    for mode in ("fast", "full"):
        it = framing(defense_parameters={"mode": mode})
        found.append((finished(it).facts, it.weights.tobytes()))
    assert found[0] == found[1]
    assert found[0][0]["victims"]
