"""Estimates of memory and time, which follow the task's parameters."""

from dataclasses import replace

import numpy as np
import pytest

from fflbench import registry
from fflbench.federation.chain import defense
from fflbench.privacy.privacy_measure import examples_trained_per_round
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


@pytest.mark.parametrize(("name", "attack"), [("membership", "lira"), ("property", "property-inference")])
def test_one_local_step_is_estimated_faster_than_many_epochs(name, attack):
    measure, attack = create_plugin(Kind.MEASURE, name), create_plugin(Kind.PRIVACY_ATTACK, attack)
    task = create_plugin(Kind.TASK, "digits-mlp", local_epochs=1000)

    def estimate_fedavg_cell(task):
        return measure.estimate_seconds(task, defense("fedavg"), attack, None)

    def training(task, examples):
        return 1e-8 * examples * task.columns().count

    if name == "membership":
        participants, held = 6 * task.per_round + attack.shadows, len(task.data().train) / task.participants
    else:
        participants, held = 20 * 10 + attack.shadows, 70
    saved = participants * (1000 * held - task.batch_size)
    difference = estimate_fedavg_cell(task) - estimate_fedavg_cell(replace(task, local_steps=1))
    np.testing.assert_allclose(difference, training(task, saved))


def test_rounds_that_attackers_simulate_are_estimated_too():
    class Timing:
        """A second for local training, and one for the defense, in every round."""

        def training(self, task):
            return 1.0

        def defense(self, task, defense):
            return 0.0, 1.0

    measure, task = create_plugin(Kind.MEASURE, "robustness"), create_plugin(Kind.TASK, "digits-mlp", rounds=5)

    def estimate(name, **fields):
        return measure.estimate_seconds(task, defense("median"), create_plugin(Kind.ATTACK, name, **fields), Timing())

    assert estimate("min-max") == 5 * 2
    assert estimate("adaptive-search", calls=7) == 5 * (2 + 7)
    assert estimate("on-off", inner={"name": "optimal-inner-product", "parameters": {}}) == 5 * (2 + 20)
