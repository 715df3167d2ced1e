"""Numeric lists on one parameter: an axis in tables and plots, in numeric order."""

import csv
import io

import numpy as np
import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.records.record import Record
from fflbench.report import leaderboard
from fflbench.report.all_tables import build_board
from fflbench.report.figures import draw_figures
from fflbench.report.record_groups import is_undefined
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.record_folders import write_run_folder
from tests.report.synthetic_records import (
    as_diverged,
    as_failed,
    as_kept,
    as_sweep_value,
    as_undefined,
    find_cell,
    find_table,
    membership_record,
    no_arrays,
    robustness_record,
    runtime_record,
)

VALUES = (20, 4, 100)
SWEEP = "sweep-digits-mlp-robustness"


def task_sweep_record(value, **fields):
    return as_sweep_value(robustness_record(accuracy=value / 200, **fields), "task", "rounds", value, "digits-mlp")


def attack_sweep_record(value, **fields):
    return as_sweep_value(
        robustness_record("gaussian-noise", accuracy=value / 200, **fields), "attack", "noise", value, "gaussian-noise"
    )


def defense_sweep_record(value, attack="gaussian-noise", **fields):
    return as_sweep_value(
        robustness_record(attack, "krum", accuracy=value / 200, **fields), "defense", "f", value, "krum"
    )


def measure_sweep_record(value, **fields):
    return as_sweep_value(
        runtime_record(seconds=value / 200, updates=value, **fields), "measure", "updates", value, "runtime"
    )


@pytest.mark.parametrize(
    ("make", "name", "row", "metric", "parameter"),
    [
        (task_sweep_record, f"{SWEEP}-none-accuracy", "fedavg", "accuracy", "rounds"),
        (attack_sweep_record, f"{SWEEP}-gaussian-noise-accuracy", "fedavg", "accuracy", "noise"),
        (defense_sweep_record, f"{SWEEP}-krum-accuracy", "gaussian-noise", "accuracy", "f"),
        (measure_sweep_record, "sweep-digits-mlp-runtime-seconds", "fedavg", "seconds", "updates"),
    ],
)
def test_a_numeric_list_is_an_axis_in_numeric_order(make, name, row, metric, parameter):
    records = [make(value, seed=seed) for value in VALUES for seed in (0, 1)]
    for each in records:
        each.json_text()
    made = build_board("own", records)
    sweep = find_table(made, name)
    assert [column.title.split(" %")[0].split(",")[0] for column in sweep.columns] == [
        f"{parameter} = {value}" for value in sorted(VALUES)
    ]
    for value in VALUES:
        assert find_cell(sweep, row, f"{parameter}-{value}").mean == pytest.approx(value / 200)
    (drawn,) = (each for each in draw_figures(records, made, no_arrays) if each.name.startswith("sweep-"))
    lines = [line for line in csv.DictReader(io.StringIO(drawn.files["csv"].decode())) if line["metric"] == metric]
    assert [(line["row"], float(line[parameter]), float(line["mean"])) for line in lines] == [
        (row, value, pytest.approx(value / 200)) for value in sorted(VALUES)
    ]


def test_tables_of_a_swept_attack_replace_those_of_its_values():
    records = [attack_sweep_record(value, defense=name) for value in VALUES for name in ("fedavg", "median")]
    others = [robustness_record(attack, name) for attack in ("none", "noise-control") for name in ("fedavg", "median")]
    made = build_board("own", [*records, *others])
    assert not [each.name for each in made.tables if "noise-4" in each.name or "noise-20" in each.name]
    by_attack = find_table(made, "digits-mlp-robustness-accuracy")
    assert [column.name for column in by_attack.columns] == ["none", "noise-control", "worst"]
    assert find_cell(by_attack, "median", "worst").note.startswith("gaussian-noise (noise = 4)")
    assert any("tables of their own" in note for note in by_attack.notes)
    find_table(made, "digits-mlp-robustness-noise-control")


def test_an_attack_with_one_value_keeps_its_table():
    records = [attack_sweep_record(20), robustness_record("none"), robustness_record("noise-control")]
    made = build_board("own", records)
    find_table(made, "digits-mlp-robustness-gaussian-noise-noise-20")
    assert len(find_table(made, "digits-mlp-robustness-accuracy").columns) == 4


def test_a_swept_attack_has_tables_of_other_shares_of_differences_and_a_setting():
    uneven = {"parameters": {"task": {"partition": "dirichlet", "participants": 20}}}
    records = [
        attack_sweep_record(
            value, defense=name, seed=seed, metrics={"worst_class_accuracy": accuracy + seed / 100}, **uneven
        )
        for value in VALUES
        for name, accuracy in (("fedavg", 0.2), ("median", 0.5))
        for seed in (0, 1)
    ]
    made = build_board("own", records)
    worst = find_table(made, f"{SWEEP}-gaussian-noise-worst_class_accuracy")
    assert find_cell(worst, "median", "noise-4").mean == pytest.approx(0.505)
    assert not any("test_loss" in each.name for each in made.tables)
    difference = find_table(made, f"{SWEEP}-gaussian-noise-accuracy-against-fedavg")
    assert [row.label for row in difference.rows] == ["median"]
    assert find_cell(difference, "median", "noise-100").mean == pytest.approx(0)
    assert any(note.startswith("Setting: 20 participants") for note in difference.notes)


def test_tests_mark_the_best_of_each_value_where_rows_differ():
    records = [
        share_sweep_record(share, name, seed=seed, accuracy=accuracy + seed / 100 + wander[seed])
        for share in (0.0, 0.2)
        for name, accuracy, wander in (("fedavg", 0.9 - 3 * share, (0, 0, 0)), ("median", 0.9, (0, 0.0003, -0.0003)))
        for seed in range(3)
    ]
    sweep = find_table(build_board("own", records), f"{SWEEP}-gaussian-noise-accuracy")
    marks = [[find_cell(sweep, name, f"share-{share}").mark for name in ("fedavg", "median")] for share in ("0", "0.2")]
    assert marks == [["", ""], ["", "best"]]


def share_sweep_record(share, defense="fedavg", attack="gaussian-noise", **fields):
    return as_sweep_value(robustness_record(attack, defense, **fields), "attack", "share", share, attack)


def csv_lines(figure):
    return list(csv.DictReader(io.StringIO(figure.files["csv"].decode())))


def draw_sweep_figures(records):
    drawn = draw_figures(records, build_board("own", records), no_arrays)
    return [each for each in drawn if each.name.startswith("sweep-")]


def test_diverged_runs_of_a_sweep_count_at_the_floor_in_tables_and_figures():
    records = [share_sweep_record(share, seed=seed, accuracy=0.8) for share in (0.0, 0.1, 0.2) for seed in (0, 1)]
    records = [*records[:3], *map(as_diverged, records[3:])]
    sweep = find_table(build_board("own", records), f"{SWEEP}-gaussian-noise-accuracy")
    cells = [find_cell(sweep, "fedavg", f"share-{share}") for share in ("0", "0.1", "0.2")]
    assert [cell.mean for cell in cells] == [pytest.approx(0.8), pytest.approx(0.4), 0.0]
    assert [cell.note for cell in cells] == ["", "1 of 2 diverged", "2 of 2 diverged"]
    assert "Runs that diverged count with 0.00." in sweep.notes
    (drawn,) = draw_sweep_figures(records)
    assert [float(line["mean"]) for line in csv_lines(drawn) if line["metric"] == "accuracy"] == [0.8, 0.4, 0.0]


def test_diverged_runs_are_no_values_of_a_metric_without_a_floor():
    records = [share_sweep_record(share, attack="label-flipping", success=0.3) for share in (0.0, 0.1)]
    records = [records[0], as_diverged(records[1])]
    sweep = find_table(build_board("own", records), f"{SWEEP}-label-flipping-attack_success_rate")
    assert find_cell(sweep, "fedavg", "share-0.1").text == "1 of 1 diverged"


def test_undefined_points_are_gaps_in_figures_and_named_in_tables():
    records = [
        share_sweep_record(share, "bulyan", seed=seed, accuracy=0.8)
        for share in (0.0, 0.1, 0.2, 0.3)
        for seed in (0, 1)
    ]
    records = [*records[:3], *map(as_undefined, records[3:6]), *records[6:]]
    sweep = find_table(build_board("own", records), f"{SWEEP}-gaussian-noise-accuracy")
    texts = [find_cell(sweep, "bulyan", f"share-{share}").text for share in ("0", "0.1", "0.2", "0.3")]
    assert texts == ["", "1 of 2 undefined", "undefined", ""]
    assert any(note.startswith("Undefined: ") for note in sweep.notes)
    (drawn,) = draw_sweep_figures(records)
    assert [line["share"] for line in csv_lines(drawn) if line["metric"] == "accuracy"] == ["0.0", "0.3"]
    (axis,) = (axis for axis in drawn.figure.axes if axis.get_title() == "accuracy %")
    assert np.isnan(np.array(axis.lines[0].get_ydata(), float)).tolist() == [False, True, True, False]


@pytest.mark.parametrize("reason", ["no update was left", "the aggregate was not finite or exploded"])
def test_a_model_that_is_kept_for_other_reasons_is_a_result(reason):
    records = [as_kept(share_sweep_record(share, accuracy=0.1), reason) for share in (0.0, 0.1)]
    sweep = find_table(build_board("own", records), f"{SWEEP}-gaussian-noise-accuracy")
    assert find_cell(sweep, "fedavg", "share-0.1").mean == pytest.approx(0.1)


def test_a_rule_that_is_defined_in_some_rounds_is_a_result():
    whole, undefined = (make(share_sweep_record(0.1, "bulyan", accuracy=0.7)) for make in (dict, as_undefined))
    mixed = undefined.model_copy(update={"history": [*undefined.history[:2], whole["history"][2]]})
    assert [is_undefined(each) for each in (undefined, mixed)] == [True, False]


@pytest.mark.parametrize(("share", "undefined"), [(0.2, False), (0.25, True)])
def test_bulyan_with_the_true_number_of_attackers_is_undefined_beyond_its_bound(share, undefined):
    content = {
        **{"tasks": ["digits-mlp"], "attacks": ["gaussian-noise"], "defenses": ["bulyan"], "seeds": [0]},
        "attack": {"gaussian-noise": {"share": share}},
        "defense": {"bulyan": {"f": "attackers"}},
        "overrides": {"per_round": 20, "rounds": 2},
    }
    (cell,) = plan(parse(content, "own", "own.toml"))
    assert is_undefined(run_cell(cell, "own")) is undefined


def test_defenses_that_differ_in_f_share_a_panel_with_dashes_for_the_true_number():
    true_f = {"parameters": {"defense": {"f": "attackers"}}, "labels": {"defense": "krum-true-f"}}
    records = [
        record
        for share in (0.0, 0.1, 0.2)
        for record in (
            share_sweep_record(share, "fedavg", accuracy=0.9 - share),
            share_sweep_record(share, "krum", parameters={"defense": {"f": "20%"}}),
            (as_undefined if share == 0.2 else Record.model_copy)(share_sweep_record(share, "krum", **true_f)),
        )
    ]
    (drawn,) = draw_sweep_figures(records)
    assert drawn.name == f"{SWEEP}-gaussian-noise-accuracy-share"
    assert {line["row"] for line in csv_lines(drawn)} == {"fedavg", "krum", "krum-true-f"}
    panels = {axis.get_title(): axis for axis in drawn.figure.axes if axis.get_visible()}
    assert list(panels) == ["fedavg", "krum"]
    baseline, given, true = (container[0] for container in panels["krum"].containers)
    assert [line.get_linestyle() for line in (baseline, given, true)] == ["-", "-", "--"]
    assert [text.get_text() for text in drawn.figure.legends[0].get_texts()] == [
        *("fedavg", "without f", "f = 20%", "f = true number of attackers", "f = true number of attackers: undefined")
    ]


def test_the_legend_of_columns_leaves_out_those_that_notes_explain(tmp_path):
    records = [share_sweep_record(share) for share in (0.0, 0.1)]
    write_run_folder(tmp_path / "own", records)
    leaderboard.generate(tmp_path / "own", tmp_path / "board")
    assert "**share = 0" not in (tmp_path / "board" / "README.md").read_text()


def test_a_sweep_of_which_every_run_failed_shows():
    records = [as_failed(attack_sweep_record(value)) for value in VALUES]
    sweep = find_table(build_board("own", records), f"{SWEEP}-gaussian-noise-accuracy")
    assert find_cell(sweep, "fedavg", "noise-4").text == "1 of 1 failed"
    assert draw_sweep_figures(records) == []


def test_a_swept_defense_shows_each_attack_by_the_metrics_of_that_attack():
    attacks = ("none", "gaussian-noise", "label-flipping")
    records = [defense_sweep_record(value, attack, success=0.3) for value in VALUES for attack in attacks]
    made = build_board("own", records)
    assert [row.label for row in find_table(made, f"{SWEEP}-krum-accuracy").rows] == ["none", "gaussian-noise"]
    assert [row.label for row in find_table(made, f"{SWEEP}-krum-attack_success_rate").rows] == ["label-flipping"]
    (drawn,) = (each for each in draw_figures(records, made, no_arrays) if each.name.startswith("sweep-"))
    lines = csv.DictReader(io.StringIO(drawn.files["csv"].decode()))
    assert {line["row"] for line in lines if line["metric"] == "accuracy"} == {"none", "gaussian-noise"}


def test_other_varied_parameters_name_rows():
    records = [
        as_sweep_value(
            membership_record(auc=0.5 + value / 1000, measure={"members": value, "control": control}), *sweep
        )
        for value in VALUES
        for control in (False, True)
        for sweep in [("measure", "members", value, "membership")]
    ]
    (sweep,) = (each for each in build_board("own", records).tables if each.name.endswith("-auc"))
    assert [row.label for row in sweep.rows] == ["fedavg (control = False)", "fedavg (control = True)"]
    assert sweep.title == "digits-mlp, membership, loss-difference, submission: AUC by members"


def test_a_single_value_is_no_sweep():
    assert not any(each.name.startswith("sweep") for each in build_board("own", [task_sweep_record(20)]).tables)


def test_a_value_that_failed_or_was_not_run_shows():
    records = [task_sweep_record(value, defense=name) for value in VALUES for name in ("fedavg", "median")]
    harmed = [as_failed(records[0]), *records[1:5]]
    sweep = find_table(build_board("own", harmed), f"{SWEEP}-none-accuracy")
    assert find_cell(sweep, "fedavg", "rounds-20").text == "1 of 1 failed"
    assert find_cell(sweep, "median", "rounds-100").display_text(sweep.columns[-1]) == ""


def test_a_suite_with_a_list_of_numbers_comes_out_as_a_sweep():
    content = {
        "tasks": ["digits-mlp"],
        "defenses": ["fedavg"],
        "seeds": [0],
        "measure": {"use": "communication", "latency": [100.0, 29.0]},
    }
    records = [run_cell(each, "own") for each in plan(parse(content, "own", "own.toml"))]
    made = build_board("own", records)
    sweep = find_table(made, "sweep-digits-mlp-communication-bytes")
    assert [column.name for column in sweep.columns] == ["latency-29", "latency-100"]
    # A message down and one up, each after one latency: all that differs is 2 x 71 ms.
    (drawn,) = (each for each in draw_figures(records, made, no_arrays) if each.name.startswith("sweep-"))
    lines = csv.DictReader(io.StringIO(drawn.files["csv"].decode()))
    short, long = (float(line["mean"]) for line in lines if line["metric"] == "seconds")
    assert long - short == pytest.approx(2 * 0.071)


def test_rows_of_a_sweep_keep_their_warnings_whichever_value_they_are_of():
    records = [defense_sweep_record(value, facts={"flags": ["f is 0"]} if value == 20 else {}) for value in VALUES]
    reported = {records[2].id: "reported, not run again"}
    (row,) = find_table(build_board("own", records, reported), f"{SWEEP}-krum-accuracy").rows
    assert row.flags == ("f is 0", "reported, not run again")


def test_a_list_of_one_number_is_no_sweep():
    suite = {"tasks": ["digits-mlp"], "attacks": ["gaussian-noise"], "defenses": ["fedavg"], "seeds": [0]}
    (found,) = plan(parse({**suite, "attack": {"gaussian-noise": {"share": [0.2]}}}, "own", "own.toml"))
    assert found.sweep == {}
