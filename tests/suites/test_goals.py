"""Attacks' defaults for a task, and the goals that cells without attackers are scored for."""

import pytest

from fflbench.errors import SuiteError
from fflbench.records.cell_configuration import goal_of
from tests.suites.own_suite import cells

FLIPPING = """
tasks = ["digits-mlp", "adult-mlp"]
attacks = ["none", "label-flipping", "gaussian-noise"]
defenses = ["fedavg"]
seeds = [0]
"""


def by_labels(found):
    return {(cell.labels["task"], cell.labels["attack"]): cell.configuration for cell in found}


def test_a_task_gives_attacks_its_defaults():
    found = by_labels(cells(FLIPPING))
    parameters = {task: found[task, "label-flipping"]["attack"]["parameters"] for task in ("digits-mlp", "adult-mlp")}
    assert parameters == {
        "digits-mlp": {"share": 0.2, "source": 7, "target": 1},
        "adult-mlp": {"share": 0.2, "source": 1, "target": 0},
    }


def test_a_suite_overrides_the_defaults_of_a_task():
    found = by_labels(cells(FLIPPING + "[attack.label-flipping]\nsource = 0\ntarget = 1\n"))
    assert found["adult-mlp", "label-flipping"]["attack"]["parameters"] == {"share": 0.2, "source": 0, "target": 1}


def test_an_attack_under_a_label_has_the_defaults_of_its_name():
    text = FLIPPING.replace('"label-flipping"', '"flip"') + '[attack.flip]\nuse = "label-flipping"\n'
    assert by_labels(cells(text))["digits-mlp", "flip"]["attack"]["parameters"]["source"] == 7


def test_a_cell_without_attackers_is_scored_for_the_goals_of_its_task():
    found = by_labels(cells(FLIPPING))
    flipping = {"name": "label-flipping", "parameters": {"source": 7, "target": 1}}
    assert found["digits-mlp", "none"]["goals"] == [flipping]
    assert found["digits-mlp", "none"]["goals"] == [goal_of(found["digits-mlp", "label-flipping"]["attack"])]
    assert found["adult-mlp", "none"]["goals"][0]["parameters"] == {"source": 1, "target": 0}
    assert not any("goals" in found[task, attack] for task, attack in found if attack != "none")


def test_shares_of_attackers_share_a_goal_and_other_goals_do_not():
    text = FLIPPING + "[attack.label-flipping]\nshare = [0.1, 0.3]\ntarget = [1, 2]\n"
    found = by_labels(cells(text.replace(', "adult-mlp"', "")))
    assert [goal["parameters"] for goal in found["digits-mlp", "none"]["goals"]] == [
        {"source": 7, "target": 1},
        {"source": 7, "target": 2},
    ]


def test_without_targeted_attacks_there_are_no_goals():
    found = cells(FLIPPING.replace('"label-flipping", ', ""))
    assert not any("goals" in cell.configuration for cell in found)


@pytest.mark.parametrize(("source", "target"), [(1, 1), (7, 10), (12, 0)])
def test_classes_that_a_task_does_not_have_are_refused(source, target):
    text = FLIPPING.replace(', "adult-mlp"', "") + f"[attack.label-flipping]\nsource = {source}\ntarget = {target}\n"
    with pytest.raises(SuiteError, match=f"source = {source} and target = {target} must be two of 10 classes, from 0"):
        cells(text)


def test_an_engine_that_is_not_registered_is_refused():
    with pytest.raises(SuiteError, match='engine "stackd" is not registered; did you mean "stacked"'):
        cells(FLIPPING, 'engine="stackd"')


def test_the_order_of_attacks_does_not_enter_the_ids_of_cells():
    text = FLIPPING.replace(', "adult-mlp"', "") + '[attack.other]\nuse = "label-flipping"\ntarget = 2\n'
    ids = [
        by_labels(cells(text.replace('"label-flipping", "gaussian-noise"', attacks)))["digits-mlp", "none"]
        for attacks in ('"label-flipping", "other"', '"other", "label-flipping"')
    ]
    assert len(ids[0]["goals"]) == 2
    assert ids[0] == ids[1]


def test_the_goal_of_a_chain_is_that_of_its_innermost_attack():
    text = FLIPPING.replace('"label-flipping"', '"label-flipping", "on-off + label-flipping"')
    found = by_labels(
        cells(text.replace(', "adult-mlp"', "") + '[attack."on-off + label-flipping"]\nperiod = [10, 12]\n')
    )
    assert found["digits-mlp", "none"]["goals"] == [
        {"name": "label-flipping", "parameters": {"source": 7, "target": 1}}
    ]
