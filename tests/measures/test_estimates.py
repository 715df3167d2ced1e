"""Estimates of memory and time, which follow the task's parameters."""

from dataclasses import replace

import numpy as np
import pytest

from fflbench import registry
from fflbench.federation.chain import defense
from fflbench.federation.time_estimates import Timing
from fflbench.privacy import privacy_measure
from fflbench.privacy.privacy_measure import examples_trained_per_round, gradient_seconds, inversion_step_seconds
from fflbench.registry import Kind


def create_plugin(kind, name, **fields):
    return registry.get(kind, name).create(**fields)


@pytest.mark.parametrize("name", ["robustness", "membership"])
def test_memory_counts_one_momentum_vector_per_participant(name):
    measure, task = create_plugin(Kind.MEASURE, name), create_plugin(Kind.TASK, "digits-mlp", participants=50)
    with_momentum = measure.memory_bytes(replace(task, worker_momentum=0.9))
    assert with_momentum - measure.memory_bytes(task) == 4 * 50 * task.columns().count


def test_local_steps_replace_epochs_in_the_number_of_examples():
    task = create_plugin(Kind.TASK, "digits-mlp", local_epochs=3, batch_size=16)
    assert examples_trained_per_round(task, 70) == 210
    assert examples_trained_per_round(replace(task, local_steps=2), 70) == 32
    assert examples_trained_per_round(replace(task, local_steps=2), 5) == 10


class FixedTiming(Timing):
    """A second for each round of local training and for whatever else is measured."""

    def training(self, task):
        return 1.0

    def defense(self, task, defense):
        return 0.0, 1.0

    def once(self, measured, *things):
        return 1.0


def estimate_fedavg_cell(measure, attack, task, timing=None, **fields):
    chosen = create_plugin(Kind.MEASURE, measure, **fields)
    attacker = create_plugin(Kind.PRIVACY_ATTACK, attack)
    return chosen.estimate_seconds(task, defense("fedavg"), attacker, timing or FixedTiming())


def test_membership_counts_rounds_shadows_and_gradients():
    task = create_plugin(Kind.TASK, "digits-mlp", per_round=10)
    assert estimate_fedavg_cell("membership", "loss-difference", task, rounds_before=5) == 6
    assert estimate_fedavg_cell("membership", "lira", task, rounds_before=5) == 6 + 500 / 10
    judged = 10 * (30 + 20)
    scored = {"rounds_before": 5, "members": 30, "others": 20}
    assert estimate_fedavg_cell("membership", "gradient-alignment", task, **scored) == 6 + judged
    trained = 4 * 10 * 2 * 100
    assert estimate_fedavg_cell("membership", "white-box", task, **scored) == 6 + 4 + 2 * (judged + trained)


def test_property_counts_examples_that_victims_and_shadows_train_on():
    task = create_plugin(Kind.TASK, "digits-mlp", local_epochs=2)
    few, many = (
        estimate_fedavg_cell("property", "property-inference", task, groups=groups, people=10, examples=70)
        for groups in (5, 15)
    )
    per_example = 1.0 / (task.per_round * 2 * len(task.data().train) / task.participants)
    np.testing.assert_allclose(many - few, 10 * 10 * 70 * 2 * per_example)


def test_reconstruction_counts_steps_and_pretraining():
    task = create_plugin(Kind.TASK, "digits-cnn")
    plain = estimate_fedavg_cell("reconstruction", "dlg", task, groups=1, people=2)
    assert plain == 0.3 + 200
    pretrained = estimate_fedavg_cell("reconstruction", "dlg", task, groups=1, people=2, model_epochs=3)
    rounds = 3 * task.participants / (task.per_round * task.local_epochs)
    np.testing.assert_allclose(pretrained - plain, rounds)


@pytest.mark.parametrize("name", ["digits-mlp", "digits-cnn"])
def test_gradients_and_inversion_are_timed_on_this_machine(name):
    task, timing = create_plugin(Kind.TASK, name), Timing()
    assert 0 < gradient_seconds(task, timing) < 1
    step = inversion_step_seconds(task, 4, 2, timing)
    assert 0 < step < 10
    assert inversion_step_seconds(task, 4, 2, timing) == step


def test_inversion_for_many_victims_is_timed_on_fewer_of_them(monkeypatch):
    timed = []
    monkeypatch.setattr(
        privacy_measure, "_measure_inversion_step", lambda task, victims, batch, device: timed.append(victims) or 1.0
    )
    task = create_plugin(Kind.TASK, "digits-cnn")
    limit = privacy_measure.TIMED_VALUES // (8 * task.columns().count)
    assert inversion_step_seconds(task, 10 * limit, 8, Timing()) == 10
    assert timed == [limit]


def test_rounds_that_attackers_simulate_are_estimated_too():
    measure, task = create_plugin(Kind.MEASURE, "robustness"), create_plugin(Kind.TASK, "digits-mlp", rounds=5)

    def estimate(name, **fields):
        return measure.estimate_seconds(
            task, defense("median"), create_plugin(Kind.ATTACK, name, **fields), FixedTiming()
        )

    assert estimate("min-max") == 5 * 2
    assert estimate("adaptive-search", calls=7) == 5 * (2 + 7)
    assert estimate("on-off", inner={"name": "optimal-inner-product", "parameters": {}}) == 5 * (2 + 20)
