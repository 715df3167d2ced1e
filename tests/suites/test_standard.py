"""The standard evaluation: its size, and parameters that its tuning chose."""

from pathlib import Path

from fflbench.records.collection import read_collection
from fflbench.report.all_tables import build_board
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.report.synthetic_records import find_table

TUNING = Path(__file__).parents[2] / "leaderboards" / "standard-tuning"


def labels(cells, kind):
    return {cell.labels[kind] for cell in cells if cell.labels["measure"] == "robustness"}


def test_it_has_twelve_attacks_adaptive_ones_among_them_on_fifteen_defenses():
    cells = plan(read("standard"))
    attacks = labels(cells, "attack") - {"none"}
    assert len(attacks) >= 12
    assert {"optimal-inner-product", "optimal-little-is-enough", "adaptive-search"} <= attacks
    assert len(labels(cells, "defense")) >= 15
    assert {cell.seed for cell in cells} == {0, 1, 2, 3, 4}


def test_tuned_parameters_have_the_best_worst_case_of_the_tuning():
    table = find_table(build_board("standard-tuning", read_collection(TUNING).records), "mnist-cnn-summary")
    place = [column.name for column in table.columns].index("worst_accuracy")
    best = max(table.rows, key=lambda row: row.cells[place].mean)
    tau = read("standard").defense["centered-clipping"]["tau"]
    assert best.label == f"centered-clipping (tau = {tau})"


def test_tuning_uses_other_seeds_no_test_examples_and_no_attack_that_adapts():
    evaluated, tuned = plan(read("standard")), plan(read("standard-tuning"))
    assert not {cell.seed for cell in evaluated} & {cell.seed for cell in tuned}
    assert {cell.configuration["task"]["parameters"]["evaluate_on"] for cell in tuned} == {"validation"}
    assert labels(tuned, "attack") == {"none", "sign-flipping", "a-little-is-enough"}
    assert len(labels(tuned, "defense")) <= 8
