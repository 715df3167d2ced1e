"""Declarations of measures: metrics, facts and needs."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fflbench import registry
from fflbench.execution.run_cell import run_cell
from fflbench.measures import Measure, Metric
from fflbench.plugin_parameters import AddedLater, check_parameters, parameters_of_function
from fflbench.records import Record, validation
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

MEASURES = {entry.name: entry.target for entry in registry.entries(Kind.MEASURE)}


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_has_a_headline_and_a_section(name):
    declared = MEASURES[name]
    assert any(metric.headline and metric.shown and metric.kind == "number" for metric in declared.metrics)
    assert declared.section in ("Robustness", "Privacy", "Cost")
    names = {metric.name for metric in declared.metrics}
    assert {metric.floor for metric in declared.metrics} - {""} <= names


def test_the_drift_of_a_reconstruction_grows_once_it_is_a_copy():
    psnr = next(metric for metric in MEASURES["reconstruction"].metrics if metric.name == "psnr")
    assert [psnr.tolerance(value) for value in (20, 39.9, 50)] == [0.3, 0.3, pytest.approx(4.0)]


@given(st.sampled_from([metric for each in MEASURES.values() for metric in each.metrics]), st.floats(0, 1))
def test_no_share_drifts_by_more_than_three_points(metric, value):
    assert not metric.is_share or metric.tolerance(value) <= 0.03


METRIC = Metric(name="x", title="x", meaning="x")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"metrics": ("x",)}, "must be Metrics"),
        ({"metrics": (METRIC, replace(METRIC, title="y"))}, "a name of its own"),
        ({"attacked": Kind.DEFENSE}, "attacked must be"),
        ({"facts": dict}, "must be subclasses of RecordFields"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused_at_once(declared, message):
    with pytest.raises(TypeError, match=message):
        type("Odd", (Measure,), declared)


@pytest.fixture(scope="module")
def record_tree():
    """A record of robustness with a sweep, as its file holds it."""
    content = {
        "tasks": ["digits-mlp"],
        "attacks": ["label-flipping"],
        "attack": {"label-flipping": {"share": [0.2, 0.4]}},
        "defenses": ["fedavg"],
        "seeds": [0],
        "overrides": {"rounds": 1},
    }
    record_tree = json.loads(run_cell(plan(parse(content, "own", "own.toml"))[0], "own").json_text())
    del record_tree["digest"]
    return record_tree


def parse_record(record_tree, **changes):
    return Record.parse(json.dumps({**record_tree, **changes}).encode())


def test_a_record_keeps_its_sweep(record_tree):
    label = "label-flipping"
    assert parse_record(record_tree).sweep == {"attack": {"parameter": "share", "value": 0.2, "label": label}}
    assert parse_record(record_tree, sweep={}).sweep == {}


@pytest.mark.parametrize(
    "sweep",
    [
        {"attack": {"parameter": "share", "value": 0.3, "label": "x"}},
        {"attack": {"parameter": "size", "value": 0.2, "label": "x"}},
        {"attack": {"parameter": "lone_sender", "value": False, "label": "x"}},
        {"attack": {"parameter": "share", "value": 0.2, "label": "\n"}},
        {"attack": {"parameter": "share", "value": 0.2}},
        {"defense": {"parameter": "share", "value": 0.2, "label": "x"}},
        {"seed": {"parameter": "share", "value": 0.2, "label": "x"}},
    ],
)
def test_a_sweep_over_something_else_than_the_configuration_has_is_refused(record_tree, sweep):
    with pytest.raises(ValueError, match="no record of robustness"):
        parse_record(record_tree, sweep=sweep)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("metrics", {"accuracy": 1.5}, "metrics.accuracy is 1.5, and must be from 0 to 1"),
        ("metrics", {"test_loss": 1e101}, "metrics.test_loss"),
        ("metrics", {"class_accuracy": [2.0]}, "metrics.class_accuracy is 2"),
        ("metrics", {"diverged": None}, "metrics.diverged is missing"),
        ("facts", {"attackers": ["x"]}, "facts.attackers.0"),
        ("facts", {"targeted": None}, "facts.targeted"),
        ("facts", {"knows": [3]}, "facts.knows.0"),
        ("facts", {"guarantee": {"epsilon": "x"}}, "facts.guarantee.epsilon"),
    ],
)
def test_a_record_that_breaks_the_declaration_of_its_measure_is_refused(record_tree, part, changes, message):
    with pytest.raises(ValueError, match=f"no record of robustness: {message}"):
        parse_record(record_tree, **{part: {**record_tree[part], **changes}})


def test_items_of_a_history_are_held_to_the_declaration(record_tree):
    with pytest.raises(ValueError, match=r"no record of robustness: history.0.round"):
        parse_record(record_tree, history=[{**record_tree["history"][0], "round": -1}])


def replace_measure(record_tree, name, parameters, **kinds):
    from fflbench.records.record import cell_id

    configuration = {key: value for key, value in record_tree["configuration"].items() if key != "attack"} | kinds
    configuration["measure"] = {"name": name, "parameters": parameters}
    labels = {kind: record_tree["labels"].get(kind, "x") for kind in configuration if kind != "seed"}
    return record_tree | {"configuration": configuration, "labels": labels, "id": cell_id(configuration), "sweep": {}}


RUNTIME = {"updates": 10, "repeats": 5, "patience": 20.0, "threads": 1}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"updates": 10}, "needs a value for repeats"),
        (RUNTIME | {"updates": "x"}, "updates"),
        (RUNTIME | {"updates": 1}, "updates"),
        (RUNTIME | {"repeats": 10**13}, "repeats is larger than any"),
    ],
)
def test_parameters_of_a_measure_must_be_whole_and_possible(record_tree, parameters, message):
    with pytest.raises(ValueError, match=f"no record of runtime: .*{message}"):
        parse_record(replace_measure(record_tree, "runtime", parameters))


def test_a_measure_has_the_kind_of_attack_that_it_declares(record_tree):
    attack = record_tree["configuration"]["attack"]
    with pytest.raises(ValueError, match="no record of runtime: it has attack, and must have none"):
        parse_record(replace_measure(record_tree, "runtime", RUNTIME, attack=attack))
    with pytest.raises(ValueError, match="no record of robustness: it has no attack, and must have attack"):
        parse_record(replace_measure(record_tree, "robustness", {}))


def test_a_record_of_a_measure_that_is_not_here_is_checked_as_any_record(record_tree):
    bare = replace_measure(record_tree, "of-somebody-else", {"x": 1}) | {"facts": {}, "history": []}
    assert parse_record(bare, metrics={"mystery": 3.0}).metrics == {"mystery": 3.0}
    with pytest.raises(ValueError, match=r"no record of of-somebody-else: metrics\.mystery"):
        parse_record(bare, metrics={"mystery": 1e101})
    with pytest.raises(ValueError, match="a finished cell without metrics"):
        parse_record(bare, metrics={})


def test_a_record_may_lack_a_parameter_of_its_measure_that_was_added_later():
    def measured(updates, size: int = 1, way: Annotated[str, AddedLater()] = "usual"): ...

    known = parameters_of_function(measured, ())
    entry = SimpleNamespace(parameters=known, check=lambda given: check_parameters("x", known, given))

    def parameters(**given):
        record = SimpleNamespace(configuration={"measure": {"parameters": given}})
        return validation._measure_parameters(record, entry)

    assert parameters(size=2) == {"size": 2}
    assert parameters(size=2, way="other") == {"size": 2, "way": "other"}
    with pytest.raises(ValueError, match="needs a value for size"):
        parameters(way="other")
