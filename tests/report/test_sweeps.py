"""Numeric lists on one parameter: an axis in tables and plots, in numeric order."""

import csv
import io

import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.report.all_tables import build_board
from fflbench.report.figures import draw_figures
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.synthetic_records import (
    as_failed,
    as_sweep_value,
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


def test_columns_of_a_swept_attack_stand_in_numeric_order_in_every_table():
    records = [attack_sweep_record(value) for value in VALUES]
    names = [
        column.name for column in find_table(build_board("own", records), "digits-mlp-robustness-accuracy").columns
    ]
    assert names == [*(f"gaussian-noise (noise = {value})" for value in sorted(VALUES)), "worst"]


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
