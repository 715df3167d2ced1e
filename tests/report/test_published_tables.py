"""Results of papers beside ours: figures, differences, reduced settings and the order of methods."""

import pytest

from fflbench import registry
from fflbench.measures import published_results
from fflbench.report.all_tables import build_board
from fflbench.report.dot_plots import draw_beside_paper
from fflbench.report.published_tables import differences_from_paper, record_value
from tests.report.synthetic_records import as_failed, find_cell, find_table, label_flipping_goal, robustness_record

NOISE, FLIPPING = "paper-adult-mlp-robustness_gn", "paper-adult-mlp-robustness_lf"
ACCURACIES = {"fedavg": 0.75, "median": 0.83, "trimmed-mean": 0.81, "multi-krum": 0.82}


@pytest.fixture(scope="module")
def paper():
    registry.load_installed()
    (found,) = published_results.papers()
    return found


def adult(attack="gaussian-noise", defense="fedavg", **fields):
    return robustness_record(attack, defense, task="adult-mlp", **fields)


def noise_records(**fields):
    return [adult(defense=name, accuracy=accuracy, **fields) for name, accuracy in ACCURACIES.items()]


def test_ours_the_papers_and_the_difference_stand_side_by_side():
    deviation = {"strategy": 2}
    records = [adult(defense="ffl", deviation=deviation, seed=seed, accuracy=0.8 + seed / 100) for seed in (0, 1)]
    table = find_table(build_board("own", records), NOISE)
    row = "ffl, strategy = 2"
    # Table "Robustness against Gaussian noise attacks": TE 0.350, All-Acc 82.86%.
    assert find_cell(table, row, "accuracy").mean == pytest.approx(0.805)
    assert find_cell(table, row, "accuracy_paper").mean == pytest.approx(0.8286)
    assert find_cell(table, row, "accuracy_difference").mean == pytest.approx(0.805 - 0.8286)
    assert find_cell(table, row, "test_loss_paper").mean == 0.35
    assert set(find_cell(table, row, "accuracy_difference").records) == {record.id for record in records}


def test_the_baseline_without_attack_is_scored_for_the_attack_of_its_table():
    goals = label_flipping_goal(source=3), label_flipping_goal()
    clean = adult("none", accuracy=0.9, goals=goals, success=[0.1, 0.3])
    records = [clean, adult("label-flipping", accuracy=0.7, success=0.8)]
    table = find_table(build_board("own", records), FLIPPING)
    assert [row.label for row in table.rows] == ["fedavg (no attack)", "fedavg"]
    assert find_cell(table, "fedavg (no attack)", "attack_success_rate").mean == pytest.approx(0.3)
    assert find_cell(table, "fedavg (no attack)", "attack_success_rate_paper").mean == pytest.approx(0.6094)


def test_another_configuration_than_the_papers_is_called_reduced():
    whole, fewer = {"rounds": 100, "average_last": 10}, {"rounds": 15, "average_last": 10}
    table = find_table(build_board("own", noise_records(parameters={"task": whole})), NOISE)
    assert "reduced" not in table.title
    assert "Where the paper says nothing: average_last = 10." in table.notes
    table = find_table(build_board("own", noise_records(parameters={"task": fewer})), NOISE)
    assert table.title.endswith("(reduced: rounds = 15 instead of 100)")


def test_parameters_of_attacks_count_as_configuration(paper):
    records = noise_records(parameters={"attack": {"share": 0.1, "sigma": 0.5}})
    assert differences_from_paper(paper, records) == ["share = 0.1 instead of 0.2"]
    # A parameter that the paper does not state, and that is not the task's default.
    assert differences_from_paper(paper, [adult(parameters={"task": {"partition": "shards"}})]) == [
        "partition = shards instead of iid"
    ]


def test_methods_are_ranked_as_in_the_paper_or_the_other_way_round():
    # Of the paper's accuracies, fedavg < trimmed mean < multi-Krum < median.
    ranks = find_table(build_board("own", noise_records()), "paper-adult-mlp-ranks")
    row = "Robustness against Gaussian noise, accuracy"
    assert find_cell(ranks, row, "tau").mean == 1
    assert find_cell(ranks, row, "methods").mean == 4
    backwards = [adult(defense=name, accuracy=1 - accuracy) for name, accuracy in ACCURACIES.items()]
    ranks = find_table(build_board("own", backwards), "paper-adult-mlp-ranks")
    assert find_cell(ranks, row, "tau").mean == -1


def test_methods_that_are_all_alike_have_no_order():
    alike = [adult(defense=name, accuracy=0.5) for name in ACCURACIES]
    assert not any(table.name.endswith("ranks") for table in build_board("own", alike).tables)


def test_a_gap_is_shown_as_a_gap():
    records = [*noise_records(), *noise_records(seed=1)]
    failed = as_failed(records[1], "no memory")
    table = find_table(build_board("own", [records[0], failed, *records[2:]]), NOISE)
    assert find_cell(table, "median", "accuracy").text == "1 of 2 failed"
    assert find_cell(table, "median", "accuracy_paper").mean == pytest.approx(0.8287)
    assert find_cell(table, "median", "accuracy_difference").mean is None


def test_tasks_of_no_paper_have_no_such_tables():
    assert not any(table.name.startswith("paper-") for table in build_board("own", [robustness_record()]).tables)


def test_values_are_metrics_facts_or_those_of_the_last_round():
    record = adult(facts={"seconds": {"sent": 3}}, history=[{"round": 1}, {"round": 2, "honest_trust": 0.5}])
    assert record_value(record, "accuracy") == 0.9
    assert record_value(record, "seconds.sent") == 3
    assert record_value(record, "last.honest_trust") == 0.5
    assert record_value(record, "seconds.sent.more") is None
    assert record_value(record, "diverged") is None


def test_a_figure_shows_ours_beside_the_papers():
    board = build_board("own", noise_records())
    (figure,) = draw_beside_paper(find_table(board, NOISE))
    assert figure.name == f"dots-{NOISE}"
    header, *numbers = figure.numbers
    shown = {(line[0], line[1], line[2]): line[3] for line in numbers}
    assert header[:4] == ["metric", "defense", "column", "mean"]
    assert shown["accuracy", "median", "ours"] == pytest.approx(0.83)
    # Table "Robustness against Gaussian noise attacks": Median, All-Acc 82.87%.
    assert shown["accuracy", "median", "the paper's"] == pytest.approx(0.8287)
    heights = [line.get_ydata()[0] for line in figure.figure.axes[0].lines if len(line.get_ydata()) == 1]
    assert len(set(heights)) == 2 * len(ACCURACIES)


def test_few_rows_need_no_figure():
    board = build_board("own", noise_records()[:3])
    assert list(draw_beside_paper(find_table(board, NOISE))) == []
