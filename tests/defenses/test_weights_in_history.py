"""Weights of FoolsGold and multi-Krum, and trust of all participants, in the history of rounds."""

import numpy as np
import pytest

from fflbench.federation.rule import NoAnswerError
from fflbench.measures.robustness import outcome_of_federation
from tests.defenses.fragment_exchange.cells import cell


def test_multi_krum_reports_which_senders_it_selects():
    it = cell("gaussian-noise", "multi-krum", defense_parameters={"m": 3})
    item = it.run_round()
    honest, hostile = item["selected"] - item["attackers_selected"], item["attackers_selected"]
    assert honest * item["honest_weight"] + hostile * item["attacker_weight"] == pytest.approx(3)
    # Noise is far from everything, so that no attacker is selected.
    assert (item["attacker_weight"], item["honest_weight"]) == (0, pytest.approx(3 / honest))
    assert "row_weights" not in item


def test_a_round_without_an_aggregate_reports_no_weights_of_an_earlier_one():
    it = cell("gaussian-noise", "multi-krum")
    it.run_round()
    selected = it.select()
    transcript = it.transmit(selected, np.full((len(selected), len(it.weights)), np.nan, np.float32))
    with pytest.raises(NoAnswerError):
        it.defense.aggregate(transcript)
    assert it.defense.rule.report() == {}


def test_foolsgold_reports_the_weights_of_senders():
    it = cell("gaussian-noise", "foolsgold", rounds=1)
    selected = it.select()
    updates = it.train(selected)
    it.poison(selected, updates)
    rows = updates.astype(np.float64)
    change = it.defense.aggregate(it.transmit(selected, updates))
    weights = it.defense.rule.report()["row_weights"]
    assert list(weights) == [str(who) for who in selected]
    shares = np.array(list(weights.values())) / sum(weights.values())
    np.testing.assert_allclose(change, shares @ rows, rtol=1e-3, atol=1e-6)


def test_a_record_has_the_mean_weights_of_both_sides():
    it = cell("label-flipping", "foolsgold", rounds=3)
    it.run()
    facts = outcome_of_federation(it).facts
    for side in ("honest", "attacker"):
        weights = [item[f"{side}_weight"] for item in it.history if f"{side}_weight" in item]
        assert facts[f"mean_{side}_weight"] == pytest.approx(np.mean(weights))
    it = cell("label-flipping", "median", rounds=1)
    it.run()
    assert "mean_honest_weight" not in outcome_of_federation(it).facts


def test_trust_of_all_counts_participants_who_did_not_submit():
    it = cell("gaussian-noise", "ffl", rounds=2)
    it.run()
    for item in it.history:
        reputation = np.array(item["reputation"])
        trust = np.maximum(np.tanh(reputation - np.quantile(reputation, 0.25)), 0)
        honest = np.setdiff1d(np.arange(20), it.attackers)
        assert item["honest_trust_of_all"] == pytest.approx(trust[honest].mean())
        assert item["attacker_trust_of_all"] == pytest.approx(trust[it.attackers].mean())
