"""The table that joins robustness, privacy and cost in one row per defense."""

import pytest

from fflbench.report.all_tables import build_board
from fflbench.report.table_model import OVERALL
from tests.report.synthetic_records import (
    WHOLE,
    as_failed,
    find_cell,
    find_table,
    membership_record,
    reconstruction_record,
    robustness_record,
    runtime_record,
)

OBSERVATIONS = {"submission": 0.55, "pair-sum": 0.7, "colluding-participant": 0.9}
INFERRED = [
    membership_record(defense=defense, seed=seed, observation=observation, auc=area + 0.001 * seed)
    for defense in ("fedavg", "ffl")
    for observation, area in OBSERVATIONS.items()
    for seed in (0, 1)
    if defense == "ffl" or observation == "submission"
]
REBUILT = [reconstruction_record(seed=seed) for seed in (0, 1)]
JOINED = [
    *WHOLE,
    *INFERRED,
    *REBUILT,
    runtime_record(),
    runtime_record("ffl", parameters={"defense": {"mode": "full"}}),
]


def build_all_measures_table(records):
    return find_table(build_board("own", records), "overall-digits-mlp")


def test_one_row_joins_robustness_privacy_and_cost():
    found = build_all_measures_table(JOINED)
    sections = {column.name: column.section for column in found.columns}
    assert sections == {
        "rank": "Robustness",
        "worst_accuracy": "Robustness",
        "label-flipping": "Robustness",
        "clean_cost": "Robustness",
        "membership-auc": "Privacy",
        "membership-auc-with-help": "Privacy",
        "reconstruction-psnr": "Privacy",
        "runtime-seconds": "Cost",
        "runtime-participant_seconds": "Cost",
        "runtime-peak_bytes": "Cost",
    }
    assert find_cell(found, "fedavg", "worst_accuracy").mean == pytest.approx(0.31)
    assert find_cell(found, "fedavg", "membership-auc").mean == pytest.approx(0.5505)
    assert find_cell(found, "fedavg", "runtime-seconds").mean == 0.01
    assert find_cell(found, "median", "membership-auc").mean is None


def test_rows_are_sorted_by_the_first_column_and_those_without_it_come_last():
    assert [row.label for row in build_all_measures_table(JOINED).rows] == ["median", "fedavg", "ffl"]


def test_what_a_server_finds_alone_stands_apart_from_what_it_finds_with_help():
    found = build_all_measures_table(JOINED)
    assert find_cell(found, "ffl", "membership-auc").mean == pytest.approx(0.7005)
    assert find_cell(found, "ffl", "membership-auc").note == "pair-sum"
    assert find_cell(found, "ffl", "membership-auc-with-help").mean == pytest.approx(0.9005)
    assert "help" in next(column for column in found.columns if column.name == "membership-auc-with-help").meaning


def test_a_failed_traitor_says_nothing_of_what_a_server_does_alone():
    spoiled = next(each for each in INFERRED if "colluding-participant" in each.labels["measure"])
    found = build_all_measures_table([as_failed(each) if each is spoiled else each for each in JOINED])
    assert find_cell(found, "ffl", "membership-auc").mean is not None
    assert find_cell(found, "ffl", "membership-auc-with-help").text == "1 of 2 failed"


@pytest.mark.parametrize("order", [1, -1])
def test_controls_are_left_out(order):
    controls = [membership_record(seed=seed, auc=0.99, measure={"control": True}) for seed in (0, 1)]
    found = build_all_measures_table([*controls, *JOINED][::order])
    assert find_cell(found, "fedavg", "membership-auc").mean == pytest.approx(0.5505)
    assert not any(each.section == OVERALL for each in build_board("own", [*WHOLE, *controls]).tables)


def test_of_several_settings_the_first_stands_in_the_row_and_is_named():
    found = build_all_measures_table([*JOINED, runtime_record(updates=1000, seconds=100.0)])
    assert find_cell(found, "fedavg", "runtime-seconds").mean == 0.01
    assert "digits-mlp, runtime (updates = 10)" in found.notes[-1]


def test_what_was_rebuilt_on_another_task_stands_in_the_row_and_names_it():
    found = build_all_measures_table(
        [*WHOLE, *(reconstruction_record(seed=seed, task="digits-cnn") for seed in (0, 1))]
    )
    assert find_cell(found, "fedavg", "reconstruction-psnr").mean == 40.0
    assert "digits-cnn, reconstruction" in found.notes[-1]


def test_a_defense_that_was_set_otherwise_for_another_measure_is_flagged():
    fast = [robustness_record(defense="ffl", seed=s, parameters={"defense": {"mode": "fast"}}) for s in range(3)]
    (row,) = (row for row in build_all_measures_table([*JOINED, *fast]).rows if row.label == "ffl")
    (message,) = (flag for flag in row.flags if flag.startswith("measured with different settings: "))
    assert "robustness with mode = fast, " in message
    assert "runtime with mode = full" in message
    (row,) = (row for row in build_all_measures_table(JOINED).rows if row.label == "fedavg")
    assert row.flags == ()


def test_a_transport_that_mixes_and_that_nobody_attacked_knowingly_is_flagged():
    record = "no adaptive attack has been run against its transport"
    naive = [each for each in JOINED if each.labels["measure"] != "robustness" and "pair" not in each.labels["measure"]]
    naive = [each for each in naive if "colluding-participant" not in each.labels["measure"]]
    flags = {row.label: row.flags for row in build_all_measures_table([*WHOLE, *naive]).rows}
    assert record in flags["ffl"]
    assert record not in flags["fedavg"]
    assert record not in next(row for row in build_all_measures_table(JOINED).rows if row.label == "ffl").flags


def test_flags_of_another_task_stay_with_that_task():
    kept = {"rounds_that_kept_the_model": 3}
    elsewhere = [robustness_record(seed=seed, task="digits-cnn", facts=kept) for seed in (0, 1)]
    row = next(row for row in build_all_measures_table([*JOINED, *elsewhere]).rows if row.label == "fedavg")
    assert not any("the model was kept" in flag for flag in row.flags)
