"""Hooks of attacks: arguments that they receive, and results that are refused."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fflbench import registry
from fflbench.data import Examples, digits
from fflbench.errors import ParameterError
from fflbench.federation import Attack, chain
from fflbench.federation.attack import Goal
from fflbench.federation.rounds import Federation
from fflbench.registration import attack, task
from fflbench.registry import Kind
from fflbench.tasks import Task


def own(**hooks):
    """Return an attack with these functions as its hooks; the own registry must be in use."""
    cls = type("Own", (Attack,), {"__doc__": "Call the test.", **hooks})
    return attack("own", title="Own", knows=["own data", "attackers' updates"])(cls)(share=0.4)


def federation(attacking, name="digits-mlp", goals=(), defense="fedavg", **fields):
    return Federation(
        registry.get(Kind.TASK, name).create(**{"rounds": 3} | fields),
        attacking,
        chain.defense(defense),
        0,
        goals=goals,
    )


@pytest.fixture
def dropout(own_registry):
    """A task whose model draws from torch's generator, and has running statistics."""

    @task("dropout", title="Dropout")
    class WithDropout(Task):
        """Digits with dropout."""

        classes = tuple("0123456789")

        def data(self):
            return digits.load()

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 10))

    return "dropout"


# Beginning


def test_an_attack_begins_once_with_the_participants_that_attack(own_registry):
    settings = []

    def begin(self, setting):
        settings.append(setting)
        self.memory["rounds"] = np.zeros(1, int)

    cell = federation(own(begin=begin))
    cell.run()
    (setting,) = settings
    assert setting.attackers.tolist() == cell.attackers.tolist()
    assert setting.columns.count == len(cell.weights)
    assert setting.task == cell.task


@pytest.mark.parametrize("value", [[1, 2], "text", np.array(["text"]), np.array([None])])
def test_a_memory_of_anything_but_arrays_of_numbers_is_refused(own_registry, value):
    def begin(self, setting):
        self.memory["seen"] = value

    with pytest.raises(ParameterError, match=r"""the attack's memory\["seen"\] must be an array of numbers"""):
        federation(own(begin=begin)).run_round()


# Data


def test_data_is_poisoned_anew_in_every_round_that_an_attacker_is_selected(own_registry):
    calls = []

    def poison_data(self, examples, task, round, rng):
        calls.append(round)
        return Examples(examples.x + round, examples.y) if round < 2 else examples

    cell = federation(own(poison_data=poison_data))
    images = cell.task.data().train.x
    for round in range(3):
        selected = cell.select()
        attackers = selected[np.isin(selected, cell.attackers)]
        calls.clear()
        cell.run_round()
        assert calls == [round] * len(attackers) != []
        for who in attackers:
            mine = cell.participants.indices[who]
            expected = images[mine] + (round if round < 2 else 0)
            np.testing.assert_array_equal(cell.participants.data.x[mine], expected)


WRONG_EXAMPLES = {
    "nothing": lambda examples: None,
    "a pair": lambda examples: (examples.x, examples.y),
    "fewer": lambda examples: Examples(examples.x[1:], examples.y[1:]),
    "other images": lambda examples: Examples(examples.x[:, :, 1:], examples.y),
    "fewer labels": lambda examples: Examples(examples.x, examples.y[1:]),
    "a class that is not there": lambda examples: Examples(examples.x, examples.y + 1),
    "negative labels": lambda examples: Examples(examples.x, examples.y - 1),
    "labels that are no whole numbers": lambda examples: Examples(examples.x, examples.y + 0.5),
}


@pytest.mark.parametrize("wrong", WRONG_EXAMPLES)
def test_poisoned_data_that_nobody_can_train_on_is_refused(own_registry, wrong):
    cell = federation(own(poison_data=lambda self, examples, task, round, rng: WRONG_EXAMPLES[wrong](examples)))
    with pytest.raises(ParameterError, match="poison_data must return Examples, as many as it receives") as refused:
        cell.run_round()
    assert "labels from 0 to 9" in str(refused.value)


def test_poisoned_inputs_may_have_another_precision_and_order(own_registry):
    def poison_data(self, examples, task, round, rng):
        return Examples((examples.x[::-1].astype(np.float64) + 0.5)[::-1], examples.y[::-1].astype(np.int32)[::-1])

    cell = federation(own(poison_data=poison_data))
    selected = cell.select()
    cell.run_round()
    mine = cell.participants.indices[np.intersect1d(selected, cell.attackers)[0]]
    np.testing.assert_array_equal(cell.participants.data.x[mine], cell.task.data().train.x[mine] + np.float32(0.5))


# Training


WRONG_UPDATES = {
    "nothing": lambda update: None,
    "a number": lambda update: 1.0,
    "a shorter vector": lambda update: update[1:],
    "a matrix": lambda update: update[None],
    "a list": lambda update: update.tolist(),
}


@pytest.mark.parametrize("wrong", WRONG_UPDATES)
def test_an_update_of_the_wrong_shape_is_refused(own_registry, wrong):
    cell = federation(own(train=lambda self, local: WRONG_UPDATES[wrong](local.train())))
    with pytest.raises(ParameterError, match="train must return a vector of 2410 numbers"):
        cell.run_round()


def test_training_without_changes_is_that_of_an_honest_participant(own_registry):
    plain, trained = federation(own()), federation(own(train=lambda self, local: local.train()), engine="loop")
    selected = plain.select()
    np.testing.assert_allclose(trained.train(selected), plain.train(selected), rtol=1e-3, atol=2e-4)


def test_an_edited_gradient_moves_only_the_coordinates_that_are_left(own_registry):
    def train(self, local):
        assert local.round == 0
        assert local.examples.y.tolist() == labels[held[local.participant]].tolist()
        return local.train(edit_gradient=lambda gradient: gradient[:-10].zero_())

    cell = federation(own(train=train))
    labels, held = cell.task.data().train.y, cell.participants.indices
    selected = cell.select()
    updates = cell.train(selected)[np.isin(selected, cell.attackers)]
    assert not updates[:, :-10].any()
    assert updates[:, -10:].all()


def test_the_model_of_an_attackers_own_training_is_the_same_at_every_access(own_registry):
    def train(self, local):
        for step in range(3):
            with torch.no_grad():
                for parameter in local.model.parameters():
                    parameter += step
        assert local.weights.tobytes() == weights
        return local.change()

    cell = federation(own(train=train))
    weights = cell.weights.tobytes()
    selected = cell.select()
    updates = cell.train(selected)[np.isin(selected, cell.attackers)]
    np.testing.assert_allclose(updates, 3, rtol=1e-5)


def test_an_attack_that_freezes_or_replaces_tensors_of_its_model_reaches_nobody_else(own_registry):
    def train(self, local):
        model = local.model.requires_grad_(False).eval()
        local.model[1].register_forward_hook(lambda *_: pytest.fail("the hook of an attacker was called"))
        vector = torch.full((local.columns.parameters.stop,), 2.0)
        nn.utils.vector_to_parameters(vector, model.parameters())
        return local.change()

    cell, honest = (federation(own(**hooks), engine="loop") for hooks in ({"train": train}, {}))
    selected = cell.select()
    hostile = np.isin(selected, cell.attackers)
    updates = cell.train(selected)
    np.testing.assert_allclose(updates[hostile] + cell.weights, 2, rtol=1e-6)
    np.testing.assert_array_equal(updates[~hostile], honest.train(selected)[~hostile])
    np.testing.assert_array_equal(cell.train(selected), updates)
    assert cell.evaluation(cell.weights) == honest.evaluation(honest.weights)


def test_training_of_an_attacks_own_repeats_to_the_bit_though_its_model_draws(own_registry, dropout):
    def train(self, local):
        examples = torch.tensor(local.examples.x), torch.tensor(local.examples.y)
        optimizer = torch.optim.SGD(local.model.parameters(), 0.1)
        for _ in range(2):
            # Without zeroing gradients: those of another attacker must not be there.
            nn.functional.cross_entropy(local.model(examples[0]), examples[1]).backward()
            optimizer.step()
        return local.change()

    cells = []
    for state in range(2):
        torch.manual_seed(state)
        cells.append(federation(own(train=train), dropout))
        before = torch.get_rng_state()
        cells[-1].run()
        assert torch.equal(torch.get_rng_state(), before)
    assert cells[0].weights.tobytes() == cells[1].weights.tobytes()
    stopped, resumed = federation(own(train=train), dropout), federation(own(train=train), dropout)
    stopped.run_round()
    resumed.restore(stopped.state())
    resumed.run()
    assert resumed.weights.tobytes() == cells[0].weights.tobytes()


# Goals


def aiming(labels=lambda test: np.zeros(len(test), int), examples=lambda test: test):
    """Return an attack whose goal is made of the test part by these functions."""
    return own(goal=lambda self, test, task: Goal(examples(test), labels(test)))


WRONG_GOALS = {
    "fewer labels": {"labels": lambda test: np.zeros(len(test) - 1, int)},
    "no examples": {"examples": lambda test: Examples(test.x[:0], test.y[:0]), "labels": lambda test: test.y[:0]},
    "other images": {"examples": lambda test: Examples(test.x[:, :, 1:], test.y)},
    "fewer inputs": {"examples": lambda test: Examples(test.x[1:], test.y)},
    "a class that is not there": {"labels": lambda test: np.full(len(test), 10)},
    "negative labels": {"labels": lambda test: np.full(len(test), -1)},
    "labels that are no whole numbers": {"labels": lambda test: np.full(len(test), 0.5)},
    "a matrix of labels": {"labels": lambda test: np.zeros((len(test), 1), int)},
    "one label": {"labels": lambda test: 3},
    "no Examples": {"examples": lambda test: test.x},
}


@pytest.mark.parametrize("wrong", WRONG_GOALS)
def test_a_goal_that_cannot_be_scored_is_refused_before_any_training(own_registry, wrong):
    with pytest.raises(ParameterError, match="goal must return a Goal with at least one example") as refused:
        federation(aiming(**WRONG_GOALS[wrong]))
    assert "one label from 0 to 9 for each" in str(refused.value)


def test_a_goal_that_is_no_goal_is_refused(own_registry):
    with pytest.raises(ParameterError, match="goal must return a Goal"):
        federation(own(goal=lambda self, test, task: (test, test.y)))


def test_a_goal_may_be_the_test_part_itself_in_any_order_and_precision(own_registry):
    backwards = aiming(
        examples=lambda test: Examples(test.x[::-1].astype(np.float64), test.y[::-1]),
        labels=lambda test: [3] * len(test),
    )
    for attacking in (aiming(labels=lambda test: np.full(len(test), 3)), backwards):
        cell = federation(attacking)
        metrics = cell.evaluation(cell.weights)
        assert metrics["source_accuracy"] == metrics["accuracy"]
        assert 0 <= metrics["attack_success_rate"] <= 1


def test_a_goal_cannot_change_the_test_part(own_registry):
    def goal(self, test, task):
        test.x[:] = 0

    with pytest.raises(ValueError, match="read-only"):
        federation(own(goal=goal))


def test_every_goal_has_its_place_in_the_lists_also_beside_an_attack_without_one_here(own_registry):
    nothing = own(goal=lambda self, test, task: None)
    goals = [nothing, aiming(lambda test: np.full(len(test), 3)), aiming(lambda test: test.y)]
    cell = federation(registry.get(Kind.ATTACK, "none").create(), goals=goals)
    metrics = cell.evaluation(cell.weights)
    assert metrics["source_accuracy"] is metrics["attack_success_rate"] is None
    assert metrics["goal_source_accuracy"] == [None, metrics["accuracy"], metrics["accuracy"]]
    assert metrics["goal_attack_success_rate"][0] is None
    assert metrics["goal_attack_success_rate"][2] == metrics["accuracy"]
    assert metrics["goal_attack_success_rate"][1] != metrics["accuracy"]


def test_an_attack_with_a_goal_of_its_own_is_not_scored_for_others(own_registry):
    cell = federation(aiming(), goals=[aiming(lambda test: test.y)] * 2)
    assert len(cell.evaluation(cell.weights)["goal_attack_success_rate"]) == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4))
def test_success_and_accuracy_of_goals_are_shares_of_predictions(pairs):
    cell = SCORED.setdefault("cell", federation(registry.get(Kind.ATTACK, "none").create()))
    test = cell.task.data().test
    cell.model.load(cell.weights)
    with torch.no_grad():
        predicted = cell.model.model.eval()(torch.tensor(test.x)).argmax(1).numpy()
    goals = [
        registry.get(Kind.ATTACK, "label-flipping").create(source=source, target=target) for source, target in pairs
    ]
    metrics = federation(cell.attack, goals=goals).evaluation(cell.weights)
    expected = [np.mean(predicted[test.y == source] == target) for source, target in pairs]
    np.testing.assert_allclose(metrics["goal_attack_success_rate"], expected)
    right = [np.mean(predicted[test.y == source] == source) for source, _ in pairs]
    np.testing.assert_allclose(metrics["goal_source_accuracy"], right)


SCORED: dict[str, Federation] = {}


def test_a_goal_travels_in_a_record(own_registry, tmp_path):
    import fflbench

    (tmp_path / "own.toml").write_text(
        """
tasks = ["digits-mlp"]
attacks = ["none", "label-flipping", "other-pair"]
defenses = ["fedavg"]
seeds = [0]
[overrides]
rounds = 2
[attack.other-pair]
use = "label-flipping"
source = 3
target = 8
share = 0.4
"""
    )
    records = {record.labels["attack"]: record for record in fflbench.run(tmp_path / "own.toml", out=tmp_path)}
    clean = records["none"]
    assert clean.configuration["goals"] == [
        {"name": "label-flipping", "parameters": {"source": 3, "target": 8}},
        {"name": "label-flipping", "parameters": {"source": 7, "target": 1}},
    ]
    assert len(clean.metrics["goal_attack_success_rate"]) == 2
    assert clean.metrics["attack_success_rate"] == clean.metrics["goal_attack_success_rate"][0]
    assert (
        json.loads(json.dumps(clean.history[-1]["goal_attack_success_rate"]))
        == (clean.metrics["goal_attack_success_rate"])
    )
    for name in ("label-flipping", "other-pair"):
        assert "goals" not in records[name].configuration
        assert len(records[name].metrics["goal_attack_success_rate"]) == 1
