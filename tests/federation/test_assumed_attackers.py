"""The parameter f: how many attackers a defense assumes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fflbench
from fflbench.errors import ParameterError
from fflbench.federation import Attack, Rule
from fflbench.federation.chain import defense
from fflbench.measures.robustness import outcome_of_federation
from fflbench.registration import attack, preaggregation, rule
from fflbench.types import Coefficients, Matrix, Vector
from tests.played import finished


def test_too_few_rows_for_f_keep_the_model_and_say_so(federation, sends):
    cell = federation(defense=("trimmed-mean", {"f": 4}), rounds=1)
    cell.attack = sends(np.nan)
    cell.participants.attackers = cell.select()[:2]
    assert cell.run_round()["kept_because"] == 'rule "trimmed-mean" needs f < n/2, but f = 4 and n = 8'


@pytest.mark.parametrize(("rule", "f"), [("trimmed-mean", 5), ("multi-krum", 8)])
def test_an_f_that_the_rule_cannot_bear_is_an_error_before_any_training(federation, rule, f):
    with pytest.raises(ParameterError, match=f"f = {f} and n = 10"):
        federation(defense=(rule, {"f": f}))


def test_an_f_beyond_the_guarantee_is_flagged(federation):
    outcome = finished(federation(defense=("multi-krum", {"f": 5}), rounds=1))
    assert outcome.facts["flags"] == ["f = 5 of 10 is beyond what multi-krum guarantees (f < (n - 2)/2)"]
    assert finished(federation(defense="multi-krum", rounds=1)).facts["flags"] == []


def test_a_fifth_is_of_the_selected_not_of_the_rows_that_are_left(federation, sends):
    cell = federation(defense="trimmed-mean")
    cell.attack = sends(np.nan)
    cell.participants.attackers = cell.select()[:3]
    selected = cell.select()
    updates = cell.train(selected)[3:]
    before = cell.weights.copy()
    cell.run_round()
    wanted = np.sort(updates.astype(np.float64), axis=0)[2:5].mean(0)
    np.testing.assert_allclose(cell.weights - before, wanted, atol=1e-6)


def test_an_f_of_zero_and_rounds_with_more_attackers_than_f_are_reported(federation):
    it = federation(attack="label-flipping", defense=("trimmed-mean", {"f": 0}), rounds=4)
    facts = finished(it).facts
    assert facts["flags"] == ["f = 0 of 10: trimmed-mean is set to tolerate no attacker"]
    attacked = sum(told["attackers_selected"] > 0 for told in it.history)
    assert 0 < attacked == facts["rounds_with_more_attackers_than_f"]
    enough = finished(federation(attack="label-flipping", defense=("trimmed-mean", {"f": 4}), rounds=4)).facts
    assert (enough["flags"], enough["rounds_with_more_attackers_than_f"]) == ([], 0)
    assert finished(federation(attack="label-flipping", rounds=1)).facts["rounds_with_more_attackers_than_f"] is None


# Ways to set f


@given(st.integers(0, 100), st.integers(0, 999), st.integers(1, 60))
def test_a_percentage_is_of_the_selected_and_rounded_down(whole, thousandths, selected):
    text = f"{whole}.{thousandths:03}%" if whole < 100 else "100%"
    assumed = defense("trimmed-mean", f=text).assumed_attackers(selected, selected)
    assert assumed == math.floor(selected * Fraction(text[:-1]) / 100)


def test_the_default_is_a_fifth_of_the_selected():
    assert (
        defense("trimmed-mean").assumed_attackers(10, 7)
        == defense("trimmed-mean", f="20%").assumed_attackers(10, 7)
        == 2
    )


def test_an_eighth_of_the_selected_can_be_written(federation):
    cell = federation(defense=("trimmed-mean", {"f": "12.5%"}), participants=20, per_round=16, rounds=1)
    assert cell.run_round()["f"] == 2


@pytest.mark.parametrize(("rule", "n", "f"), [("trimmed-mean", 10, 4), ("trimmed-mean", 7, 3), ("multi-krum", 10, 3)])
def test_bound_is_the_most_that_the_guarantee_allows(rule, n, f):
    assert defense(rule, f="bound").assumed_attackers(n, n) == f


@pytest.mark.parametrize(
    "text", ["20", "20 %", "-5%", "100.1%", "1e1%", "five", "", "%", "Bound", "attacker", "20%%", "nan%", "1/3", ".5%"]
)
def test_other_texts_are_refused_in_one_sentence(text):
    with pytest.raises(ParameterError) as refused:
        defense("nnm + trimmed-mean", f=text)
    wanted = f'f = "{text}" must be a number, a percentage such as "20%", "bound" or "attackers"'
    assert str(refused.value).endswith(wanted)


@pytest.mark.parametrize("value", [-1, 2.5, True, None, [2], float("nan")])
def test_other_values_are_refused(value):
    with pytest.raises(ParameterError, match="f = "):
        defense("trimmed-mean", f=value)


# The true number of attackers


def told(federation, attack, rule="trimmed-mean", **fields):
    """Return a federation whose defense knows the number of attackers in each round."""
    return federation(attack=attack, defense=(rule, {"f": "attackers"}), **fields)


def test_the_oracle_counts_the_attackers_of_each_round(federation):
    cell = told(federation, "label-flipping", rounds=6)
    cell.run()
    counts = [item["attackers_selected"] for item in cell.history]
    assert [item["f"] for item in cell.history] == counts
    assert len(set(counts)) > 1


def test_the_oracle_gives_the_aggregate_of_that_f(federation):
    cell = told(federation, "gaussian-noise", rounds=1)
    selected = cell.select()
    updates = cell.train(selected)
    cell.poison(selected, updates)
    f = int(np.isin(selected, cell.attackers).sum())
    assert f > 0
    expected = fflbench.aggregate("trimmed-mean", updates, f=f)
    before = cell.weights.copy()
    cell.run_round()
    np.testing.assert_allclose(cell.weights - before, expected, atol=1e-6)


def test_the_oracle_counts_only_attackers_whose_rows_arrived(federation, sends):
    cell = told(federation, "none", rounds=1)
    cell.attack = sends(np.nan)
    cell.participants.attackers = cell.select()[:3]
    item = cell.run_round()
    assert (item["attackers_selected"], item["f"], len(item["dropped"])) == (3, 0, 3)
    facts = outcome_of_federation(cell).facts
    assert facts["rounds_with_more_attackers_than_f"] == 0


def test_a_round_with_more_attackers_than_the_rule_can_tolerate_keeps_the_model(federation):
    cell = told(federation, ("label-flipping", {"share": 0.7}), rounds=1)
    before = cell.weights.copy()
    item = cell.run_round()
    assert item["kept_because"].startswith('rule "trimmed-mean" needs f < n/2')
    np.testing.assert_array_equal(cell.weights, before)


def test_an_oracle_is_flagged_in_the_record(federation):
    (flag,) = finished(told(federation, "none", rounds=1)).facts["flags"]
    assert flag == "trimmed-mean knows the true number of attackers of each round: an oracle"


@pytest.mark.parametrize("chain", ["nnm + trimmed-mean", "bucketing + trimmed-mean", "fragment-exchange + multi-krum"])
def test_every_part_of_a_chain_is_told(federation, chain):
    cell = told(federation, "label-flipping", chain, rounds=2)
    cell.run()
    assert [item["f"] for item in cell.history] == [item["attackers_selected"] for item in cell.history]


def test_a_regrouping_with_an_f_is_told_too(federation, own_registry):
    @preaggregation("without-first", title="Without the first", tolerates="f < n/2", regroups=True)
    def without_first(updates, f: int):
        """Leave out the first f rows."""
        seen.append(f)
        return np.eye(len(updates))[f:]

    seen = []
    cell = told(federation, "label-flipping", "without-first + median", rounds=3)
    seen.clear()
    for _ in range(3):
        item = cell.run_round()
        assert item["attackers_selected"] in seen
        assert item["f"] == item["attackers_selected"]


def test_only_a_defense_that_asks_is_told_the_number_of_attackers(federation):
    cell = federation(attack="label-flipping", defense="trimmed-mean")
    selected = cell.select()
    assert cell.transmit(selected, cell.train(selected)).server.attackers is None


def test_a_matrix_of_updates_has_no_known_attackers():
    with pytest.raises(ParameterError, match='f = "attackers" is known only in a federation; give a number'):
        fflbench.aggregate("trimmed-mean", np.eye(5, dtype=np.float32), f="attackers")


def test_simulated_rows_are_aggregated_with_the_same_f(federation, own_registry):
    @attack("trying", title="Trying", knows=["own data", "attackers' updates", "honest updates", "defense"])
    class Trying(Attack):
        """Send what was simulated."""

        def poison_updates(self, known):
            expected.append(known.weights + known.simulate(-known.updates))
            return -known.updates

    expected = []
    cell = told(federation, ("trying", {"share": 0.3}), "multi-krum", rounds=3)
    for _ in range(3):
        cell.run_round()
        np.testing.assert_array_equal(cell.weights, expected[-1])


def test_attackers_who_submit_nothing_are_not_counted_against_an_oracle(federation):
    """Of an odd number of participants, one finds nobody to exchange with."""
    cell = federation(
        defense=("fragment-exchange + trimmed-mean", {"f": "attackers"}),
        attack=("noise-control", {"share": 0.4}),
        participants=15,
        per_round=15,
        rounds=4,
    )
    outcome = finished(cell)
    assert any(item["attackers_arrived"] < item["attackers_selected"] for item in cell.history)
    assert outcome.facts["rounds_with_more_attackers_than_f"] == 0


def test_a_part_with_another_f_does_not_see_the_number_of_attackers(federation, own_registry):
    seen = []

    @rule("watchful", title="Watchful")
    class Watchful(Rule):
        """Record the number of attackers in its view."""

        def aggregate(self, view, rng):
            seen.append(view.attackers)
            return view.rows.mean(0)

    attacked = {"attack": ("noise-control", {"share": 0.3}), "rounds": 1}
    finished(federation(defense=("nnm + watchful", {"f": "attackers"}), **attacked))
    assert seen == [None]


def test_a_preaggregation_cannot_ask_for_a_root_update(own_registry):
    def rooted(updates: Matrix, *, root_update: Vector) -> Coefficients:
        """Ask for too much."""

    with pytest.raises(TypeError, match="cannot ask for root_update, which only rules receive"):
        preaggregation("rooted", title="Rooted")(rooted)
