"""What is true of somebody's data: told where it shows, not told where nothing comes through."""

import numpy as np
import pytest

from fflbench import registry
from fflbench.data import Examples
from fflbench.errors import SuiteError
from fflbench.execution.cell import play
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


def cells(defense="fedavg", task="digits-mlp", defenses=None, attack=None, **measure):
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


def told(*arguments, **settings):
    (cell,) = cells(*arguments, **settings)
    record = play(cell, "test")
    assert record.status == "done", record.error
    return record


def test_a_class_that_is_there_shows_and_less_so_through_an_exchange():
    plain, mixed = told(), told("ffl")
    assert plain.metrics["auc"] > 0.9
    assert 0.5 + mixed.metrics["auc_by_chance"] < mixed.metrics["auc"] < plain.metrics["auc"]
    assert plain.facts["adaptive"] is None
    assert mixed.facts["adaptive"] is True
    assert told("ffl", attack={"plain": True}).facts["adaptive"] is False


def test_behind_noise_alone_nothing_is_told():
    """The control: what is sent has no trace of anybody."""
    record = told("ldp", defenses={"clip": 1e-6, "noise": 100.0})
    assert abs(record.metrics["auc"] - 0.5) < record.metrics["auc_by_chance"]


def test_the_share_of_women_shows(real):
    real("adult")
    record = told(task="adult-mlp", examples=500, share_with=0.7, share_without=0.1)
    assert record.metrics["auc"] > 0.8


def test_women_are_a_third_of_adult(real):
    real("adult")
    task = registry.get(Kind.TASK, "adult-mlp").create()
    data = task.data().train
    assert task.trait(data).mean() == pytest.approx(0.33, abs=0.01)


def test_people_are_made_as_asked():
    (cell,) = cells(examples=30, share_with=0.5, share_without=0.1)
    measure, task = cell.measure, cell.create(Kind.TASK)
    data = task.data().train
    make, rng = measure._maker(task, data, np.arange(700)), np.random.default_rng(0)
    for has, share in ((True, 0.5), (False, 0.1)):
        own = make(has, rng)
        assert len(np.unique(own)) == 30
        assert own.max() < 700
        assert task.trait(Examples(data.x[own], data.y[own])).mean() == pytest.approx(share)


def test_victims_global_model_and_server_share_no_examples(monkeypatch):
    from fflbench.measures import property as properties

    pools, it = [], properties.Property._maker

    def maker(self, task, data, pool):
        pools.append(pool)
        return it(self, task, data, pool)

    monkeypatch.setattr(properties.Property, "_maker", maker)
    told()
    theirs, servers = pools
    assert not set(theirs) & set(servers)
    assert len(theirs) + len(servers) < 1437


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share_with": 0.5, "share_without": 0.5}, "come to the same"),
        ({"defense": "ffl", "people": 5}, "people = 5 leaves somebody over"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(SuiteError, match=message):
        cells(**settings)


def test_more_examples_than_there_are_is_an_error():
    (cell,) = cells(examples=1000)
    assert "more than a third of the training part has" in play(cell, "test").error
