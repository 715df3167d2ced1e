"""Property inference: possible where updates reveal the property, impossible where they do not."""

import numpy as np
import pytest

from fflbench import registry
from fflbench.data import Examples
from fflbench.errors import SuiteError
from fflbench.execution.run_cell import run_cell
from fflbench.measures.property import Property
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


def plan_property_cells(defense="fedavg", task="digits-mlp", defenses=None, attack=None, **measure):
    suite = {
        "tasks": [task],
        "attacks": ["property-inference"],
        "attack": {"property-inference": {"shadows": 300, "trees": 100, **(attack or {})}},
        "defenses": [defense],
        "defense": {defense: defenses} if defenses else {},
        "seeds": [0],
        "measure": {"use": "property", "groups": 10, **measure},
    }
    return plan(parse(suite, "test", "test"))


def run_property(*arguments, **settings):
    (cell,) = plan_property_cells(*arguments, **settings)
    record = run_cell(cell, "test")
    assert record.status == "done", record.error
    return record


def test_a_class_that_is_there_shows_and_less_so_through_an_exchange():
    plain, mixed = run_property(), run_property("ffl")
    assert plain.metrics["auc"] > 0.9
    assert 0.5 + mixed.metrics["auc_by_chance"] < mixed.metrics["auc"] < plain.metrics["auc"]
    assert plain.facts["adaptive"] is None
    assert mixed.facts["adaptive"] is True
    assert run_property("ffl", attack={"plain": True}).facts["adaptive"] is False


def test_pure_noise_reveals_no_property():
    """The control: what is sent has no trace of anybody."""
    record = run_property("ldp", defenses={"clip": 1e-6, "noise": 100.0})
    assert abs(record.metrics["auc"] - 0.5) < record.metrics["auc_by_chance"]


def test_the_share_of_women_shows(real):
    real("adult")
    record = run_property(task="adult-mlp", examples=500, share_with=0.7, share_without=0.1)
    assert record.metrics["auc"] > 0.8


def test_women_are_a_third_of_adult(real):
    real("adult")
    task = registry.get(Kind.TASK, "adult-mlp").create()
    data = task.data().train
    assert task.trait(data).mean() == pytest.approx(0.33, abs=0.01)


def test_participants_hold_the_configured_share_of_the_trait():
    (cell,) = plan_property_cells(examples=30, share_with=0.5, share_without=0.1)
    measure, task = cell.measure, cell.create(Kind.TASK)
    data = task.data().train
    draw, rng = measure._example_drawing_function(task, data, np.arange(700)), np.random.default_rng(0)
    for has, share in ((True, 0.5), (False, 0.1)):
        own = draw(has, rng)
        assert len(np.unique(own)) == 30
        assert own.max() < 700
        assert task.trait(Examples(data.x[own], data.y[own])).mean() == pytest.approx(share)


def test_victims_global_model_and_server_share_no_examples(monkeypatch):
    pools, drawing = [], Property._example_drawing_function

    def recorded(self, task, data, pool):
        pools.append(pool)
        return drawing(self, task, data, pool)

    monkeypatch.setattr(Property, "_example_drawing_function", recorded)
    run_property()
    victims, server = pools
    assert not set(victims) & set(server)
    assert len(victims) + len(server) < 1437


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share_with": 0.5, "share_without": 0.5}, "come to the same"),
        ({"defense": "ffl", "people": 5}, "people = 5 leaves somebody over"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(SuiteError, match=message):
        plan_property_cells(**settings)


def test_more_examples_than_there_are_is_an_error():
    (cell,) = plan_property_cells(examples=1000)
    assert "more than a third of the training set has" in run_cell(cell, "test").error
