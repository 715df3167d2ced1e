"""Parts of a cell's configuration, and the names of defenses."""

import pytest

from fflbench.federation import chain
from fflbench.records.cell_configuration import (
    defense_name,
    defense_parts,
    is_defense_configuration,
    parameter_values,
    restrict_defense,
)
from fflbench.records.manifest import RESULTS_VERSION, results_versions
from fflbench.registry import Kind


def defense_configuration(text, **given):
    return chain.parse(text).check(given)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("median", "median"),
        ("plain + median", "median"),
        ("nnm + median", "nnm + median"),
        ("ffl", "ffl"),
        ("fragment-exchange + reputation", "ffl"),
        ("fragment-exchange + clipping + reputation", "fragment-exchange + clipping + reputation"),
        ("ideal-secagg + fedavg", "ideal-secagg"),
        ("ldp", "ldp"),
    ],
)
def test_a_defense_has_the_name_it_is_registered_under_or_those_of_its_parts(text, name):
    assert defense_name(defense_configuration(text)) == name


def test_parts_that_are_not_here_have_names_too():
    theirs = defense_configuration("median") | {"rule": {"name": "theirs", "parameters": {}}}
    assert defense_name(theirs) == "theirs"
    assert defense_name(restrict_defense(theirs, ("transport",))) == "plain"
    assert defense_name(restrict_defense(defense_configuration("ffl"), ("transport",))) == "fragment-exchange"


def test_results_versions_are_those_of_every_part():
    configuration = {
        **{kind: {"name": name, "parameters": {}} for kind, name in (("task", "digits-mlp"), ("attack", "none"))},
        "measure": {"name": "robustness", "parameters": {}},
        "defense": defense_configuration("fragment-exchange + nnm + clipping + trimmed-mean"),
        "seed": 0,
    }
    found = results_versions(configuration)
    assert set(found) == {
        *("core", "task", "attack", "measure", "transport", "rule"),
        *("preaggregation nnm", "preaggregation clipping"),
    }
    assert found["core"] == RESULTS_VERSION
    assert found["transport"] == chain.parse("fragment-exchange + median").transport.results_version
    private = configuration | {"measure": {"name": "membership", "parameters": {"observation": "pair-sum"}}}
    assert set(results_versions(private)) == {*found, "observation"}


def test_values_of_a_parameter_are_those_of_all_parts_or_of_one():
    found = defense_configuration("nnm + trimmed-mean", f=2, nnm={"f": 1})
    assert parameter_values(found, "f") == [1, 2]
    assert parameter_values(found, "trimmed-mean.f") == [2]
    assert parameter_values(found, "bound") == []
    assert parameter_values({"name": "x", "parameters": {"f": 3}}, "f") == [3]


def test_parts_of_a_chain_have_their_kinds():
    kinds = [part.kind for part in defense_parts(defense_configuration("ldp + nnm + median"))]
    assert kinds == [Kind.TRANSPORT, Kind.PREAGGREGATION, Kind.RULE]


@pytest.mark.parametrize(
    "value",
    [
        *(None, {}, [], "fedavg", {"name": "fedavg", "parameters": {}}),
        {"transport": {"name": "plain"}},
        {"transport": {"name": "plain", "parameters": {}}, "preaggregations": {}},
        {"transport": {"name": "plain", "parameters": {}}, "preaggregations": [3]},
        {"transport": {"name": "plain", "parameters": {}}, "rules": []},
    ],
)
def test_what_is_no_chain_is_no_defense(value):
    assert not is_defense_configuration(value)
    assert is_defense_configuration(defense_configuration("nnm + median"))
