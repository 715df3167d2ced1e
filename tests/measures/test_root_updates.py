"""Rules that train on the server's own examples, in every measure."""

import numpy as np
import pytest

from fflbench import registration, registry
from fflbench.errors import SuiteError
from fflbench.execution.run_cell import run_cell
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

ATTACKS = {
    "robustness": "none",
    "membership": "loss-difference",
    "property": "property-inference",
    "reconstruction": "analytic",
}
PARAMETERS = {
    "membership": {"rounds_before": 1},
    "property": {"groups": 2, "people": 4, "model_epochs": 1},
    "reconstruction": {"groups": 1},
    "runtime": {"repeats": 1},
}


@pytest.fixture
def received_root_updates(own_registry):
    """Root updates that a rule got."""
    received = []

    @registration.rule("follow-root", title="Follow root")
    def follow_root(updates, root_update):
        """Return the root update."""
        received.append(root_update)
        return root_update.copy()

    return received


def plan_cells(measure, **overrides):
    suite = {
        "tasks": ["digits-mlp"],
        "attacks": [ATTACKS[measure]] if measure in ATTACKS else [],
        "defenses": ["follow-root"],
        "seeds": [0],
        "overrides": {"rounds": 1, "participants": 40} | overrides,
        "measure": {"use": measure, **PARAMETERS.get(measure, {})},
    }
    if measure == "property":
        suite["attack"] = {"property-inference": {"shadows": 10, "trees": 5}}
    return plan(parse(suite, "test", "test"))


@pytest.mark.parametrize("measure", ["robustness", "membership"])
def test_measures_that_train_a_model_need_root_examples(received_root_updates, measure):
    with pytest.raises(SuiteError, match="its rule trains on the server's own examples: set the task's root_examples"):
        plan_cells(measure)


@pytest.mark.parametrize("measure", ["robustness", "membership"])
def test_measures_that_train_a_model_train_on_root_examples(received_root_updates, measure):
    (cell,) = plan_cells(measure, root_examples=100)
    record = run_cell(cell, "test")
    assert record.status == "done", record.error
    assert np.linalg.norm(received_root_updates[0]) > 0


@pytest.mark.parametrize("measure", ["runtime", "communication"])
def test_cost_is_measured_with_a_random_root_update(received_root_updates, measure):
    (cell,) = plan_cells(measure)
    record = run_cell(cell, "test")
    assert record.status == "done", record.error
    columns = registry.get(Kind.TASK, "digits-mlp").create().columns()
    assert {each.shape for each in received_root_updates} == {(columns.count,)}
    assert np.linalg.norm(received_root_updates[0]) == pytest.approx(np.sqrt(columns.count), rel=0.1)


@pytest.mark.parametrize("measure", ["property", "reconstruction"])
def test_measures_of_the_transport_alone_need_no_root_update(received_root_updates, measure):
    (cell,) = plan_cells(measure)
    record = run_cell(cell, "test")
    assert record.status == "done", record.error
    assert received_root_updates == []
