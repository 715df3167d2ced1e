"""Evaluation on training examples that nobody holds, for tuning without the test set."""

import numpy as np
import pytest
import torch

from fflbench import registry
from fflbench.execution.run_cell import run_cell
from fflbench.federation import chain
from fflbench.federation.rounds import Federation
from fflbench.plugin import Attack, Kind, attack
from fflbench.report.all_tables import build_board
from tests.played import finished
from tests.report.synthetic_records import find_table
from tests.suites.own_suite import GOOD, cells


def create_task(**fields):
    return registry.get(Kind.TASK, "digits-mlp").create(**{"rounds": 2, "root_examples": 50, **fields})


def federation(attack="label-flipping", seed=0, **fields):
    return Federation(create_task(**fields), registry.get(Kind.ATTACK, attack).create(), chain.defense("median"), seed)


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "dirichlet-equal", "shards"])
def test_a_tenth_of_the_training_examples_is_held_by_nobody(partition):
    task = create_task(evaluate_on="validation", partition=partition)
    y = task.data().train.y
    held_out = task.validation_indices(y, seed=3)
    assert len(set(held_out)) == len(held_out) == 144
    held = np.concatenate([*task.divide(y, seed=3), task.root_indices(y, seed=3)])
    assert not set(held_out) & set(held)
    if partition in ("iid", "dirichlet"):
        assert len({*held_out, *held}) == len(y) == 1437
    assert set(held_out) != set(task.validation_indices(y, seed=4))


def test_no_example_is_held_out_for_the_test_set():
    task = create_task()
    y = task.data().train.y
    assert not len(task.validation_indices(y, seed=0))
    assert len(np.concatenate([*task.divide(y, seed=0), task.root_indices(y, seed=0)])) == len(y)


def test_the_model_is_evaluated_on_held_out_examples_of_the_training_set():
    it = federation("gaussian-noise", evaluate_on="validation")
    found = finished(it)
    train = it.task.data().train
    held_out = sorted(set(range(1437)) - {*np.concatenate(it.participants._all).tolist()})
    assert len(held_out) == 144
    it.model.load(it.weights)
    with torch.no_grad():
        right = it.model.model(torch.from_numpy(train.x[held_out])).argmax(1).numpy() == train.y[held_out]
    assert found.metrics["accuracy"] == pytest.approx(right.mean())
    assert found.facts["flags"][-1] == "evaluated on held-out training examples, not on the test set"
    assert "evaluated" not in "".join(finished(federation("gaussian-noise")).facts["flags"])


def test_nothing_else_is_drawn_otherwise():
    tuned, tested = federation(evaluate_on="validation"), federation()
    assert tuned.weights.tobytes() == tested.weights.tobytes()
    assert (tuned.attackers == tested.attackers).all()
    assert (tuned.select() == tested.select()).all()
    assert tuned.participants._all[-1].tolist() == tested.participants._all[-1].tolist()


def test_attacks_aim_at_held_out_examples_too(own_registry):
    seen = []

    @attack("aims", title="Aims", knows=[])
    class Aims(Attack):
        """Keeps the inputs that it could aim at."""

        def goal(self, test, task):
            seen.append(test)

    it = federation("aims", evaluate_on="validation")
    held_out = it.task.validation_indices(it.task.data().train.y, seed=0)
    np.testing.assert_array_equal(seen[0].x, it.task.data().train.x[held_out])


def test_cells_on_the_test_set_keep_their_ids_and_others_have_their_own():
    before = cells(GOOD)
    named, tuned = (cells(GOOD, f"overrides.evaluate_on={part}") for part in ("test", "validation"))
    assert "evaluate_on" not in before[0].configuration["task"]["parameters"]
    assert [cell.id for cell in named] == [cell.id for cell in before]
    assert tuned[0].configuration["task"]["parameters"]["evaluate_on"] == "validation"
    assert not {cell.id for cell in tuned} & {cell.id for cell in before}


def test_tables_say_that_records_are_no_results_on_the_test_set():
    found = cells(GOOD.replace("seeds = [0, 1]", "seeds = [0]"), "overrides.evaluate_on=validation")
    table = find_table(build_board("own", [run_cell(cell, "own") for cell in found]), "digits-mlp-summary")
    assert all("evaluated on held-out training examples, not on the test set" in row.flags for row in table.rows)
