"""Numeric lists on one parameter: an axis in tables and plots, in numeric order."""

import csv
import io

import pytest

from fflbench.execution.cell import play
from fflbench.report.board import board
from fflbench.report.figures import figures
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.synthetic import cell, failed, membership, no_arrays, robust, swept, table, timed

VALUES = (20, 4, 100)
SWEEP = "sweep-digits-mlp-robustness"


def by_task(value, **told):
    return swept(robust(accuracy=value / 200, **told), "task", "rounds", value, "digits-mlp")


def by_attack(value, **told):
    return swept(robust("gaussian-noise", accuracy=value / 200, **told), "attack", "noise", value, "gaussian-noise")


def by_defense(value, attack="gaussian-noise", **told):
    return swept(robust(attack, "krum", accuracy=value / 200, **told), "defense", "f", value, "krum")


def by_measure(value, **told):
    return swept(timed(seconds=value / 200, updates=value, **told), "measure", "updates", value, "runtime")


@pytest.mark.parametrize(
    ("make", "name", "row", "metric", "parameter"),
    [
        (by_task, f"{SWEEP}-none-accuracy", "fedavg", "accuracy", "rounds"),
        (by_attack, f"{SWEEP}-gaussian-noise-accuracy", "fedavg", "accuracy", "noise"),
        (by_defense, f"{SWEEP}-krum-accuracy", "gaussian-noise", "accuracy", "f"),
        (by_measure, "sweep-digits-mlp-runtime-seconds", "fedavg", "seconds", "updates"),
    ],
)
def test_a_numeric_list_is_an_axis_in_numeric_order(make, name, row, metric, parameter):
    records = [make(value, seed=seed) for value in VALUES for seed in (0, 1)]
    for each in records:
        each.json_text()
    made = board("own", records)
    sweep = table(made, name)
    assert [column.title.split(" %")[0].split(",")[0] for column in sweep.columns] == [
        f"{parameter} = {value}" for value in sorted(VALUES)
    ]
    for value in VALUES:
        assert cell(sweep, row, f"{parameter}-{value}").mean == pytest.approx(value / 200)
    (drawn,) = (each for each in figures(records, made, no_arrays) if each.name.startswith("sweep-"))
    lines = [line for line in csv.DictReader(io.StringIO(drawn.files["csv"].decode())) if line["metric"] == metric]
    assert [(line["row"], float(line[parameter]), float(line["mean"])) for line in lines] == [
        (row, value, pytest.approx(value / 200)) for value in sorted(VALUES)
    ]


def test_columns_of_a_swept_attack_stand_in_numeric_order_in_every_table():
    records = [by_attack(value) for value in VALUES]
    names = [column.name for column in table(board("own", records), "digits-mlp-robustness-accuracy").columns]
    assert names == [*(f"gaussian-noise (noise = {value})" for value in sorted(VALUES)), "worst"]


def test_a_swept_defense_shows_each_attack_by_the_metrics_of_that_attack():
    attacks = ("none", "gaussian-noise", "label-flipping")
    records = [by_defense(value, attack, success=0.3) for value in VALUES for attack in attacks]
    made = board("own", records)
    assert [row.label for row in table(made, f"{SWEEP}-krum-accuracy").rows] == ["none", "gaussian-noise"]
    assert [row.label for row in table(made, f"{SWEEP}-krum-attack_success_rate").rows] == ["label-flipping"]
    (drawn,) = (each for each in figures(records, made, no_arrays) if each.name.startswith("sweep-"))
    lines = csv.DictReader(io.StringIO(drawn.files["csv"].decode()))
    assert {line["row"] for line in lines if line["metric"] == "accuracy"} == {"none", "gaussian-noise"}


def test_other_varied_parameters_name_rows():
    records = [
        swept(membership(auc=0.5 + value / 1000, measure={"members": value, "control": control}), *sweep)
        for value in VALUES
        for control in (False, True)
        for sweep in [("measure", "members", value, "membership")]
    ]
    (sweep,) = (each for each in board("own", records).tables if each.name.endswith("-auc"))
    assert [row.label for row in sweep.rows] == ["fedavg (control = False)", "fedavg (control = True)"]
    assert sweep.title == "digits-mlp, membership, loss-difference, submission: AUC by members"


def test_a_single_value_is_no_sweep():
    assert not any(each.name.startswith("sweep") for each in board("own", [by_task(20)]).tables)


def test_a_value_that_failed_or_was_not_run_shows():
    records = [by_task(value, defense=name) for value in VALUES for name in ("fedavg", "median")]
    harmed = [failed(records[0]), *records[1:5]]
    sweep = table(board("own", harmed), f"{SWEEP}-none-accuracy")
    assert cell(sweep, "fedavg", "rounds-20").text == "1 of 1 failed"
    assert cell(sweep, "median", "rounds-100").shown(sweep.columns[-1]) == ""


def test_a_suite_with_a_list_of_numbers_comes_out_as_a_sweep():
    content = {
        "tasks": ["digits-mlp"],
        "defenses": ["fedavg"],
        "seeds": [0],
        "measure": {"use": "communication", "latency": [100.0, 29.0]},
    }
    records = [play(each, "own") for each in plan(parse(content, "own", "own.toml"))]
    made = board("own", records)
    sweep = table(made, "sweep-digits-mlp-communication-bytes")
    assert [column.name for column in sweep.columns] == ["latency-29", "latency-100"]
    # A message down and one up, each after one latency: all that differs is 2 x 71 ms.
    (drawn,) = (each for each in figures(records, made, no_arrays) if each.name.startswith("sweep-"))
    lines = csv.DictReader(io.StringIO(drawn.files["csv"].decode()))
    short, long = (float(line["mean"]) for line in lines if line["metric"] == "seconds")
    assert long - short == pytest.approx(2 * 0.071)


def test_rows_of_a_sweep_keep_their_warnings_whichever_value_they_are_of():
    records = [by_defense(value, facts={"flags": ["f is 0"]} if value == 20 else {}) for value in VALUES]
    reported = {records[2].id: "reported, not run again"}
    (row,) = table(board("own", records, reported), f"{SWEEP}-krum-accuracy").rows
    assert row.flags == ("f is 0", "reported, not run again")


def test_a_list_of_one_number_is_no_sweep():
    suite = {"tasks": ["digits-mlp"], "attacks": ["gaussian-noise"], "defenses": ["fedavg"], "seeds": [0]}
    (found,) = plan(parse({**suite, "attack": {"gaussian-noise": {"share": [0.2]}}}, "own", "own.toml"))
    assert found.sweep == {}
