import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import hypergeom
from threadpoolctl import threadpool_info
from torch import nn

from fflbench.arrays import kernels
from fflbench.data import digits
from fflbench.errors import ParameterError
from fflbench.federation import Rule
from fflbench.federation.rounds import Federation, State
from fflbench.registration import rule, task
from fflbench.tasks import Task
from tests.played import finished

RULES = ("fedavg", "median", "trimmed-mean", "krum", "multi-krum", "foolsgold")
CHAINS = (
    *RULES,
    "ffl",
    "fragment-exchange + median",
    "reputation",
    "ldp + median",
    "nnm + trimmed-mean",
    "bucketing + median",
)


def bits(outcome_or_federation):
    return outcome_or_federation.weights.tobytes(), json.dumps(outcome_or_federation.history)


@pytest.mark.parametrize("rule", CHAINS)
def test_the_same_cell_gives_the_same_bits(federation, rule):
    cells = [federation(attack="gaussian-noise", defense=rule, rounds=4) for _ in range(2)]
    for cell in cells:
        cell.run()
    assert bits(cells[0]) == bits(cells[1])
    other = federation(attack="gaussian-noise", defense=rule, rounds=4, seed=1)
    other.run()
    assert bits(other) != bits(cells[0])


@pytest.mark.parametrize("rule", CHAINS)
@pytest.mark.parametrize("stop", [0, 1, 4, 6])
def test_a_restored_checkpoint_goes_on_to_the_same_bits(federation, rule, stop):
    fields = {"attack": "label-flipping", "defense": rule, "rounds": 7, "average_last": 3}
    whole = federation(**fields)
    expected = finished(whole)
    first = federation(**fields)
    for _ in range(stop):
        first.run_round()
    file = io.BytesIO()
    state = first.state()
    np.savez(file, **state.arrays)
    text = json.dumps(state.facts)
    first.run_round()  # what happens after a checkpoint does not reach into it
    file.seek(0)
    second = federation(**fields)
    second.restore(State(dict(np.load(file, allow_pickle=False)), json.loads(text)))
    outcome = finished(second)
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
        sent = [cell.train(selected) for cell in (one, two)]
        for cell, updates in zip((one, two), sent, strict=True):
            cell.poison(selected, updates)
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
    outcome = finished(federation(attack="gaussian-noise", rounds=30))
    assert outcome.facts["rounds_with_more_than_20_percent_attackers"] == pytest.approx(np.mean(crowded[:30]))


def test_clean_training_reaches_what_the_task_promises(federation):
    for name in ("digits-mlp", "digits-cnn"):
        assert finished(federation(task=name)).metrics["accuracy"] > 0.93


def test_metrics_of_the_mean_of_the_last_models_are_those_of_that_model(federation):
    cell = federation(rounds=5, average_last=3)
    models = []
    outcome = finished(cell, lambda _: models.append(cell.weights))
    mean = np.mean(np.array(models[-3:], np.float64), 0).astype(np.float32)
    expected = cell.evaluation(mean)
    assert {name: outcome.metrics[name] for name in expected} == expected
    assert expected != {name: outcome.history[-1][name] for name in expected}


def test_the_history_tells_every_round(federation):
    heard = []
    outcome = finished(federation(attack="label-flipping", rounds=3), heard.append)
    assert outcome.history == heard
    assert [told["round"] for told in heard] == [1, 2, 3]
    assert set(outcome.seconds) == {"select", "train", "poison", "transmit", "aggregate", "evaluate"}
    assert len(heard[0]["class_accuracy"]) == 10


def test_a_rule_sees_the_servers_view_and_remembers_in_arrays(federation, own_registry):
    @rule("counting", title="Counting")
    class Counting(Rule):
        """Counts rows."""

        def begin(self, setting):
            super().begin(setting)
            self.memory["rows"] = np.zeros(1, int)

        def aggregate(self, view, rng):
            assert view.sizes.tolist() == sizes[view.participants].tolist()
            self.memory["rows"] += len(view.rows)
            return np.zeros(view.columns.count, np.float32)

    cell = federation(defense="counting", rounds=3)
    sizes = np.array([len(indices) for indices in cell.participants.indices])
    cell.run()
    assert cell.defense.rule.memory["rows"] == 30
    fresh = federation(defense="counting", rounds=3)
    fresh.restore(cell.state())
    assert fresh.defense.rule.memory["rows"] == 30


def test_the_example_in_the_documentation_runs(capsys):
    page = (Path(__file__).parents[2] / "docs/federation.md").read_text()
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    assert "attack_success_rate" in capsys.readouterr().out


def test_fedavg_in_a_cell_weighs_by_examples(federation):
    cell = federation(partition="dirichlet", dirichlet_alpha=0.2)
    before = cell.weights.copy()
    selected = cell.select()
    updates = cell.train(selected)
    sizes = np.array([len(cell.participants.indices[k]) for k in selected])
    assert len(set(sizes)) > 3
    cell.run_round()
    np.testing.assert_allclose(cell.weights - before, np.average(updates, axis=0, weights=sizes), atol=1e-5)


def test_foolsgold_remembers_all_rounds(federation):
    cell = federation(defense="foolsgold", rounds=3)
    last = cell.model.columns.last_layer
    total = np.zeros((20, last.stop - last.start))
    for _ in range(3):
        selected = cell.select()
        total[selected] += cell.train(selected)[:, last]
        cell.run_round()
    np.testing.assert_allclose(cell.defense.rule.memory["history"], total, atol=1e-5)
    assert np.count_nonzero(np.abs(total).sum(1)) > 10


def test_noise_differs_from_round_to_round_and_first_models_from_seed_to_seed(federation):
    cell = federation(attack="gaussian-noise")
    selected = np.array([cell.attackers[0]])
    noises = []
    for round in range(2):
        cell.round = round
        noises.append(np.zeros((1, cell.model.columns.count), np.float32))
        cell.poison(selected, noises[-1])
    assert not np.array_equal(*noises)
    assert federation(seed=0).weights.tobytes() != federation(seed=1).weights.tobytes()


def test_whatever_threads_a_caller_has_a_cell_uses_one(federation):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        cell = federation(defense="multi-krum", rounds=1)
        seen = []
        inner = cell.defense.aggregate

        def spying(transcript, *known):
            seen.append((torch.get_num_threads(), kernels._threads.get()))
            seen.append({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
            return inner(transcript)

        cell.defense.aggregate = spying
        cell.run()
        assert seen == [(1, 1), {1}]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def normed(own_registry):
    """A task whose model has running statistics and dropout."""

    @task("normed", title="Normed")
    class Normed(Task):
        """Digits with a batch normalisation."""

        classes = tuple("0123456789")

        def data(self):
            return digits.load()

        def model(self):
            layers = nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)
            return nn.Sequential(*layers)

    return "normed"


def test_batch_normalisation_and_dropout_repeat_to_the_bit_and_learn(federation, normed):
    cells = [federation(task=normed, rounds=8, learning_rate=0.05, local_epochs=3) for _ in range(2)]
    outcomes = [finished(cell) for cell in cells]
    assert bits(cells[0]) == bits(cells[1])
    assert outcomes[0].metrics["accuracy"] > 0.85


def test_running_variances_never_go_below_zero(federation, normed, own_registry):
    @rule("downwards", title="Downwards")
    def downwards(updates):
        """Everything gets smaller."""
        return np.full(updates.shape[1], -5, np.float64)

    cell = federation(task=normed, defense="downwards", rounds=1)
    cell.run()
    assert cell.weights.dtype == np.float32
    assert (cell.weights[cell.model.columns.spans["2.running_var"]] == 0).all()


def test_an_aggregate_of_the_wrong_shape_is_an_error(federation, own_registry):
    @rule("scalar", title="Scalar")
    def scalar(updates):
        """One number."""
        return np.float32(1)

    with pytest.raises(ParameterError, match=r"aggregate has shape \(\), not \(2410,\)"):
        federation(defense="scalar").run_round()


def test_nobody_else_can_change_the_global_model(federation, own_registry):
    @rule("vandal", title="Vandal")
    class Vandal(Rule):
        """Writes where it should not."""

        def aggregate(self, view, rng):
            view.model[:] = 0

    with pytest.raises(ValueError, match="read-only"):
        federation(defense="vandal").run_round()


def test_a_device_that_is_not_here_is_told(federation):
    with pytest.raises(ParameterError, match='device "nowhere" is not here'):
        Federation(federation().task, federation().attack, federation().defense, 0, device="nowhere")
