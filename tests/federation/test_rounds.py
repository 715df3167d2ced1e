import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom

from fflbench.errors import ParameterError
from fflbench.federation import Attack, Defense
from fflbench.federation.rounds import State
from fflbench.registry import attack, defense

RULES = ("fedavg", "median", "trimmed-mean", "krum", "multi-krum", "foolsgold")


def bits(outcome_or_federation):
    return outcome_or_federation.weights.tobytes(), json.dumps(outcome_or_federation.history)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_cell_gives_the_same_bits(federation, rule):
    cells = [federation(attack="gaussian-noise", defense=rule, rounds=4) for _ in range(2)]
    for cell in cells:
        cell.run()
    assert bits(cells[0]) == bits(cells[1])
    other = federation(attack="gaussian-noise", defense=rule, rounds=4, seed=1)
    other.run()
    assert bits(other) != bits(cells[0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_restored_checkpoint_goes_on_to_the_same_bits(federation, rule, stop):
    fields = {"attack": "label-flipping", "defense": rule, "rounds": 7, "average_last": 3}
    whole = federation(**fields)
    expected = whole.run()
    first = federation(**fields)
    for _ in range(stop):
        first.play()
    file = io.BytesIO()
    state = first.state()
    np.savez(file, **state.arrays)
    text = json.dumps(state.facts)
    first.play()  # what happens after a checkpoint does not reach into it
    file.seek(0)
    second = federation(**fields)
    second.restore(State(dict(np.load(file, allow_pickle=False)), json.loads(text)))
    outcome = second.run()
    assert bits(second) == bits(whole)
    assert outcome.metrics == expected.metrics


def test_two_defenses_meet_the_same_world(federation):
    one, two = federation(attack="gaussian-noise"), federation(attack="gaussian-noise", defense="median")
    assert one.attackers.tolist() == two.attackers.tolist()
    assert one.weights.tobytes() == two.weights.tobytes()
    for round in range(3):
        one.round = two.round = round
        selected = one.select()
        assert selected.tolist() == two.select().tolist()
        sent = [cell.poison(selected, cell.train(selected)).submitted for cell in (one, two)]
        assert sent[0].tobytes() == sent[1].tobytes()


def test_a_larger_share_adds_attackers_to_those_of_a_smaller_one(federation):
    few, many = (set(federation(attack=("gaussian-noise", {"share": share})).attackers) for share in (0.1, 0.4))
    assert len(few) == 2
    assert len(many) == 8
    assert few < many


def test_more_attackers_than_a_fifth_are_selected_as_often_as_chance_has_it(federation):
    """4 of 20 attack and 10 are selected: more than 2 attackers come up in 29% of rounds."""
    cell = federation(attack="gaussian-noise")
    crowded = [np.isin(cell.defense.select(round), cell.attackers).sum() > 2 for round in range(3000)]
    expected = hypergeom.sf(2, 20, 4, 10)
    assert abs(np.mean(crowded) - expected) < 4 * np.sqrt(expected * (1 - expected) / 3000)
    outcome = federation(attack="gaussian-noise", rounds=30).run()
    assert outcome.facts["rounds_with_more_than_20_percent_attackers"] == pytest.approx(np.mean(crowded[:30]))


def test_clean_training_reaches_what_the_task_promises(federation):
    for name in ("digits-mlp", "digits-cnn"):
        assert federation(task=name).run().metrics["accuracy"] > 0.93


def test_metrics_of_the_mean_of_the_last_models_are_those_of_that_model(federation):
    cell = federation(rounds=5, average_last=3)
    models = []
    outcome = cell.run(lambda _: models.append(cell.weights))
    mean = np.mean(np.array(models[-3:], np.float64), 0).astype(np.float32)
    assert outcome.metrics == cell.evaluation(mean)
    assert outcome.metrics != {name: outcome.history[-1][name] for name in outcome.metrics}


def test_the_history_tells_every_round(federation):
    heard = []
    outcome = federation(attack="label-flipping", rounds=3).run(heard.append)
    assert outcome.history == heard
    assert [told["round"] for told in heard] == [1, 2, 3]
    assert set(outcome.seconds) == {"select", "train", "poison", "transmit", "aggregate", "evaluate"}
    assert len(heard[0]["class_accuracy"]) == 10


@pytest.fixture
def sends(own_registry):
    """An attack that fills its update with one value, or plants it in one place."""

    @attack("sends", title="Sends a value", knows=[])
    class Sends(Attack):
        """Sends one value."""

        value: float = 0.0
        everywhere: bool = True

        def poison_updates(self, known):
            known.updates[:, slice(None) if self.everywhere else 7] = self.value
            return known.updates

    return lambda value, everywhere=True: Sends(value=value, everywhere=everywhere, share=0.1)


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", RULES)
def test_rows_that_are_not_finite_are_dropped_and_counted(federation, sends, rule, value, everywhere):
    cell = federation(defense=rule, rounds=15)
    cell.attack = sends(value, everywhere)
    cell.attackers = np.array([3, 11])
    outcome = cell.run()
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
    cell.attackers = np.array([3, 11])
    outcome = cell.run()
    stands = outcome.metrics["accuracy"] > (0.6 if rule == "krum" else 0.85)
    if rule in ("fedavg", "foolsgold"):
        assert stands or outcome.metrics["diverged"] or outcome.facts["rounds_that_kept_the_model"]
    else:
        assert stands
        assert outcome.facts["dropped_rows"] == 0


def test_a_round_in_which_nothing_is_left_keeps_the_model_and_says_so(federation, sends):
    cell = federation(rounds=2)
    cell.attack = sends(np.nan)
    cell.attackers = np.arange(20)
    before = cell.weights.copy()
    outcome = cell.run()
    np.testing.assert_array_equal(cell.weights, before)
    assert [told["kept_model"] for told in outcome.history] == ["no update was left"] * 2
    assert outcome.facts["rounds_that_kept_the_model"] == 2


def test_too_few_rows_for_f_keep_the_model_and_say_so(federation, sends):
    cell = federation(defense=("trimmed-mean", {"f": 4}), rounds=1)
    cell.attack = sends(np.nan)
    cell.attackers = cell.select()[:2]
    assert cell.play()["kept_model"] == 'defense "trimmed-mean" needs f < n/2, but f = 4 and n = 8'


@pytest.mark.parametrize(("rule", "f"), [("trimmed-mean", 5), ("multi-krum", 8)])
def test_an_f_that_the_rule_cannot_bear_is_an_error_before_any_training(federation, rule, f):
    with pytest.raises(ParameterError, match=f"f = {f} and n = 10"):
        federation(defense=(rule, {"f": f}))


def test_an_f_beyond_the_guarantee_is_flagged(federation):
    outcome = federation(defense=("multi-krum", {"f": 5}), rounds=1).run()
    assert outcome.facts["flags"] == ["f = 5 of 10 is beyond what multi-krum guarantees (f < (n - 2)/2)"]
    assert federation(defense="multi-krum", rounds=1).run().facts["flags"] == []


def test_a_defense_sees_what_it_lets_through_and_remembers_in_arrays(federation, own_registry):
    @defense("counting", title="Counting")
    class Counting(Defense):
        """Counts rows."""

        def begin(self, setting):
            super().begin(setting)
            self.memory["rows"] = np.zeros(1, int)

        def aggregate(self, view):
            assert view.sizes.tolist() == self.setting.sizes[view.participants].tolist()
            self.memory["rows"] += len(view.updates)
            return np.zeros(view.columns.count, np.float32)

    cell = federation(defense="counting", rounds=3)
    cell.run()
    assert cell.defense.memory["rows"] == 30
    fresh = federation(defense="counting", rounds=3)
    fresh.restore(cell.state())
    assert fresh.defense.memory["rows"] == 30


def test_the_example_in_the_documentation_runs(capsys):
    page = (Path(__file__).parents[2] / "docs/federation.md").read_text()
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    assert "attack_success_rate" in capsys.readouterr().out
