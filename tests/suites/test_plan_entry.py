"""Cells of one more defense: in every setting in which defenses of its kind were run."""

from pathlib import Path

import pytest

from fflbench.errors import FflbenchError
from fflbench.records.collection import defense_labels, read_collection
from fflbench.suites.plan_entry import NewDefense, plan_entry

QUICK = Path(__file__).parents[2] / "leaderboards" / "quick"


@pytest.fixture(scope="module")
def quick():
    return read_collection(QUICK).records


@pytest.mark.parametrize("name", ["fedavg", "median", "foolsgold", "ffl"])
def test_a_defense_that_is_there_would_get_exactly_the_cells_that_it_has(quick, name):
    planned = plan_entry("quick", quick, NewDefense(name, name))
    assert {cell.id for cell in planned.cells} == {record.id for record in quick if name in defense_labels(record)}
    labels = {record.id: record.labels for record in quick}
    assert all(cell.labels == labels[cell.id] | {"defense": name} for cell in planned.cells)


def test_without_anyone_of_its_kind_a_defense_gets_every_setting_that_makes_sense(quick):
    others = [record for record in quick if not defense_labels(record) & {"ideal-secagg"}]
    planned = plan_entry("quick", others, NewDefense("sums", "ideal-secagg"))
    assert {cell.labels["measure"] for cell in planned.cells} == {"robustness"}
    (reason,) = planned.left_out
    assert "its cost cannot be measured" in reason


def test_deviations_from_its_transport_are_those_of_the_leaderboard(quick):
    planned = plan_entry("quick", quick, NewDefense("new", "fragment-exchange + clipping + median"))
    by_attack = {}
    for cell in planned.cells:
        by_attack.setdefault(cell.labels.get("attack"), set()).add(cell.labels.get("deviation"))
    both = {"strategy = 1", "strategy = 2"}
    deviating = ("gaussian-noise", "label-flipping", "optimal-inner-product", "adaptive-search")
    assert by_attack == {"none": {None}, "noise-control": {None}, None: {None}, **dict.fromkeys(deviating, both)}
    assert len(planned.cells) == len({record.id for record in quick if "ffl" in defense_labels(record)})


def test_a_defense_that_cannot_be_measured_like_its_kind_is_refused(quick):
    with pytest.raises(FflbenchError, match=r"quick: \[defense.new\].*f"):
        plan_entry("quick", quick, NewDefense("new", "trimmed-mean", {"f": 50}))
