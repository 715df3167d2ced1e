"""Attackers who depart from the exchange: strategies 1 to 3, avoiding all others or each other, and breaking off."""

import numpy as np
import pytest

from fflbench.crypto import keystream
from fflbench.errors import ParameterError
from fflbench.suites.cell import create_deviation
from tests.defenses.fragment_exchange.cells import by_name, cell, mask_by_names, rows_by_sender, transmitted
from tests.played import finished


@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_strategies_are_what_they_are_called(strategy):
    it = cell("gaussian-noise", deviation={"strategy": strategy})
    selected = it.select()
    updates = it.train(selected)
    clean = by_name(it, selected, updates)
    it.poison(selected, updates)
    poisoned = by_name(it, selected, updates)
    rows = rows_by_sender(it.transmit(selected, updates).server)
    attacker = next(int(who) for who in selected if who in it.attackers and int(who) in rows)
    # Whatever it submits, its partner got poison in half of the coordinates.
    assert 0.4 < (rows[it.defense.transport.partner[attacker]] == poisoned[attacker]).mean() < 0.6
    if strategy == 1:
        assert 0.4 < (rows[attacker] == poisoned[attacker]).mean() < 0.6
    elif strategy == 2:
        np.testing.assert_array_equal(rows[attacker], poisoned[attacker])
    else:
        np.testing.assert_allclose(rows[attacker], clean[attacker], atol=1e-5)


def test_strategy_3_submits_what_clean_data_gives():
    it = cell("label-flipping", attack_parameters={"share": 0.5}, deviation={"strategy": 3})
    selected = it.select()
    updates = it.train(selected)
    poisoned = by_name(it, selected, updates)
    rows = rows_by_sender(it.transmit(selected, updates).server)
    clean = by_name(it, selected, cell("none").train(selected))
    exchanged = [who for who in it.defense.transport.partner if who in it.attackers]
    assert exchanged
    for who in exchanged:
        np.testing.assert_allclose(rows[who], clean[who], atol=1e-5)
        assert not np.allclose(rows[who], poisoned[who], atol=1e-3)


def test_attackers_may_be_told_to_avoid_each_other():
    def among_themselves(avoiding):
        it = cell("gaussian-noise", attack_parameters={"share": 0.5}, deviation={"avoid_each_other": avoiding})
        count = 0
        for round in range(10):
            it.round = round
            transmitted(it)
            partner = it.defense.transport.partner
            count += sum(who in it.attackers and other in it.attackers for who, other in partner.items())
        return count

    assert among_themselves(False) > 0
    assert among_themselves(True) == 0


def test_attackers_who_exchange_only_with_each_other_keep_their_rows_from_all_others():
    it = cell("gaussian-noise", attack_parameters={"share": 0.5}, deviation={"only_each_other": True})
    selected = it.select()
    updates = it.train(selected)
    it.poison(selected, updates)
    own = by_name(it, selected, updates)
    rows = rows_by_sender(it.transmit(selected, updates).server)
    found = pairs(it)
    assert found[1] == []
    assert found[0]
    assert found[2]
    for one, other in map(tuple, found[2]):
        np.testing.assert_array_equal(rows[one] + rows[other], own[one] + own[other])
        assert 0.4 < (rows[one] == own[one]).mean() < 0.6


@pytest.mark.parametrize("only", [False, True])
def test_nobody_honest_learns_to_refuse_attackers_who_exchange_only_with_each_other(only):
    it = cell("gaussian-noise", rounds=10, deviation={"only_each_other": only})
    it.run()
    honest = np.setdiff1d(np.arange(20), it.attackers)
    local = it.defense.transport.memory["local"]
    assert (local[np.ix_(honest, it.attackers)] < 0).any() == (not only)
    # They vouch for each other by their rows alone: the server notices those all the same.
    assert it.history[-1]["attacker_trust_of_all"] == 0


def test_an_attacker_who_finds_no_other_abstains_or_submits_alone():
    for lone in (False, True):
        it = cell("gaussian-noise", deviation={"only_each_other": True, "lone_sender": lone})
        it.participants.attackers = it.select()[:1]
        transcript = transmitted(it)
        assert transcript.facts["lone"] == it.attackers.tolist() * lone
        assert set(it.attackers) <= set(transcript.facts["abstained"]) or lone


@pytest.mark.parametrize(
    ("deviation", "reason"),
    [
        ({"avoid_each_other": True, "only_each_other": True}, "avoid each other"),
        ({"victims": 3, "only_each_other": True}, "have no victims"),
    ],
)
def test_attackers_cannot_exchange_with_each_other_only_and_with_others_only(deviation, reason):
    with pytest.raises(ParameterError, match=reason):
        create_deviation("fragment-exchange", deviation)


def test_later_deviations_are_part_of_a_configuration_only_where_attackers_take_them():
    before = {"strategy": 3, "avoid_each_other": False, "lone_sender": False, "abort": False}
    assert create_deviation("fragment-exchange", {"strategy": 3, "only_each_other": False})[0] == before
    assert create_deviation("fragment-exchange", {"strategy": 3, "victims": 4})[0] == before | {"victims": 4}


def aborting(mode="fast", share=0.5, **deviation):
    parameters = {"share": share}
    deviation = {"abort": True, **deviation}
    return cell("gaussian-noise", attack_parameters=parameters, defense_parameters={"mode": mode}, deviation=deviation)


def pairs(it):
    """This round's pairs by the number of attackers in them."""
    found = {frozenset(pair) for pair in it.defense.transport.partner.items()}
    return {count: [pair for pair in found if len(pair & set(it.attackers)) == count] for count in (0, 1, 2)}


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_attackers_who_break_off_silence_their_honest_partners_and_themselves(mode):
    it = aborting(mode)
    transcript = transmitted(it)
    broken = pairs(it)[1]
    assert broken
    silent = set(it.select()) - set(transcript.server.participants)
    assert silent == set().union(*broken)
    assert transcript.facts["faults"] == ["between partners: broken off"] * len(broken)
    assert transcript.facts["abstained"] == []


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_attackers_who_break_off_exchange_with_each_other_as_agreed(mode):
    it = aborting(mode)
    selected = it.select()
    updates = it.train(selected)
    it.poison(selected, updates)
    own = by_name(it, selected, updates)
    rows = rows_by_sender(it.transmit(selected, updates).server)
    found = pairs(it)
    assert found[2]
    for one, other in map(tuple, found[2] + found[0]):
        np.testing.assert_array_equal(rows[one] + rows[other], own[one] + own[other])
        assert 0.4 < (rows[one] == own[one]).mean() < 0.6


def test_who_was_broken_off_keeps_every_reputation():
    it = aborting()
    transcript = transmitted(it)
    silent = sorted(set(it.select()) - set(transcript.server.participants))
    assert it.aggregate(transcript) == ""
    assert not it.defense.transport.memory["local"][silent].any()
    assert not it.defense.rule.memory["global"][silent].any()
    assert it.defense.rule.memory["global"].any()


def test_exchanges_that_attackers_broke_off_are_counted_in_every_round_and_in_the_record():
    it = aborting()
    counted = []
    outcome = finished(it, lambda _: counted.append(len(pairs(it)[1])))
    assert [len(told["faults"]) for told in outcome.history] == counted
    assert outcome.facts["faults"] == sum(counted) > 0


def test_breaking_off_gives_the_same_bits_in_both_modes(monkeypatch):
    monkeypatch.setattr(keystream, "random_mask", mask_by_names)
    found = []
    for mode in ("fast", "full"):
        it = aborting(mode, strategy=3)
        found.append((finished(it).facts, it.weights.tobytes()))
    assert found[0] == found[1]


def test_without_attackers_nobody_breaks_off():
    it = aborting(share=0.0)
    assert it.run_round()["faults"] == []
