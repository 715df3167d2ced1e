"""Rows and examples of attackers that are not finite or huge, and aggregates that explode."""

import numpy as np
import pytest

from fflbench.data import Examples
from fflbench.federation import Attack
from fflbench.federation.rounds import Federation
from fflbench.registration import attack, rule
from tests.federation.test_rounds import RULES
from tests.played import finished


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", RULES)
def test_rows_that_are_not_finite_are_dropped_and_counted(federation, sends, rule, value, everywhere):
    cell = federation(defense=rule, rounds=15)
    cell.attack = sends(value, everywhere)
    cell.participants.attackers = np.array([3, 11])
    outcome = finished(cell)
    assert outcome.metrics["accuracy"] > (0.6 if rule == "krum" else 0.85)
    assert not outcome.metrics["diverged"]
    selected = sum(told["attackers_selected"] for told in outcome.history)
    assert outcome.facts["dropped_rows"] == selected > 0
    assert set().union(*(told["dropped"] for told in outcome.history)) <= {3, 11}


@pytest.mark.parametrize("value", [1e38, -3e38])
@pytest.mark.parametrize("rule", RULES)
def test_huge_values_destroy_no_robust_rule_and_the_record_tells_of_the_others(federation, sends, rule, value):
    cell = federation(defense=rule, rounds=15)
    cell.attack = sends(value)
    cell.participants.attackers = np.array([3, 11])
    outcome = finished(cell)
    stands = outcome.metrics["accuracy"] > (0.6 if rule == "krum" else 0.85)
    if rule in ("fedavg", "foolsgold"):
        assert stands or outcome.metrics["diverged"] or outcome.facts["rounds_that_kept_the_model"]
    else:
        assert stands
        assert outcome.facts["dropped_rows"] == 0


def test_a_round_in_which_nothing_is_left_keeps_the_model_and_says_so(federation, sends):
    cell = federation(rounds=2)
    cell.attack = sends(np.nan)
    cell.participants.attackers = np.arange(20)
    before = cell.weights.copy()
    outcome = finished(cell)
    np.testing.assert_array_equal(cell.weights, before)
    assert [told["kept_because"] for told in outcome.history] == ["no update was left"] * 2
    assert outcome.facts["rounds_that_kept_the_model"] == 2


def test_sizes_follow_the_rows_that_are_left(federation, sends):
    cell = federation(partition="dirichlet", dirichlet_alpha=0.2)
    cell.attack = sends(np.nan)
    selected = cell.select()
    cell.participants.attackers = selected[[0, 4]]
    updates = cell.train(selected)
    cell.poison(selected, updates)
    view = cell.transmit(selected, updates).server
    left = np.delete(selected, [0, 4])
    assert view.participants.tolist() == left.tolist()
    assert view.sizes.tolist() == [len(cell.participants.indices[k]) for k in left]
    assert view.dropped.tolist() == cell.attackers.tolist()


@pytest.mark.parametrize(("value", "kept"), [(np.nan, True), (np.inf, True), (1e30, True), (1e10, False)])
def test_an_aggregate_that_explodes_keeps_the_model(federation, own_registry, value, kept):
    @rule("constant", title="Constant")
    def constant(updates):
        """One value everywhere."""
        return np.full(updates.shape[1], value, np.float32)

    assert bool(federation(defense="constant", rounds=1).run_round()["kept_because"]) is kept


def test_huge_inputs_of_one_participant_reach_nobody_else(federation, own_registry):
    """Padding of short batches must not read other people's examples."""

    @attack("blinding", title="Blinding", knows=["own data"])
    class Blinding(Attack):
        """Trains on inputs that overflow."""

        def poison_data(self, examples, task, round, rng):
            return Examples(np.full_like(examples.x, 3e38), examples.y)

    cell = federation(attack="blinding", rounds=1)
    held = next(k for k, indices in enumerate(cell.participants.indices) if 0 in indices)
    hostile = Blinding(share=0.05)
    order = [held]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fflbench.federation.participants._attackers", lambda *_: np.array(order))
        cell = Federation(cell.task, hostile, cell.defense, 0)
    dropped = [cell.run_round()["dropped"] for _ in range(3)]
    assert set().union(*dropped) <= {held}
