"""Costs: the paper's figures beside ours, growth of the server's time, bytes by kind of message."""

import csv
import io

import numpy as np
import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.measures.growth import log_log_slope
from fflbench.measures.runtime import collect_runtime_growth
from fflbench.report.all_tables import build_board
from fflbench.report.figures import draw_figures
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.synthetic_records import as_failed, find_cell, find_table, no_arrays, runtime_record


def communication_records(tasks, defenses, **measure):
    content = {
        "tasks": tasks,
        "defenses": defenses,
        "seeds": [0],
        "measure": {"use": "communication", **measure},
        "defense": {"ffl": {"mode": "full"}} if "ffl" in defenses else {},
    }
    return [run_cell(each, "own") for each in plan(parse(content, "own", "own.toml"))]


# Runtime


PARTS = ("decryption", "aggregation", "participant")


def test_the_papers_seconds_stand_beside_ours_where_it_has_any():
    records = [
        runtime_record("median", 10, 0.5, task="adult-mlp"),
        runtime_record("ffl", 100, 0.7, task="cifar10-vgg16"),
        runtime_record("krum", 10, 0.5, task="adult-mlp"),
    ]
    found = build_board("own", records)
    adult = find_table(found, "paper-adult-mlp-runtime")
    # Table "CPU runtime in seconds" of the paper.
    assert [row.label for row in adult.rows] == ["10, median"]
    assert find_cell(adult, "10, median", "aggregation_seconds").mean == 0.5
    assert find_cell(adult, "10, median", "aggregation_seconds_difference").mean == pytest.approx(0.498)
    printed = [find_cell(adult, "10, median", f"{part}_seconds_paper").mean for part in PARTS]
    assert printed == [0, 0.002, 0]
    vgg = find_table(found, "paper-cifar10-vgg16-runtime")
    assert [find_cell(vgg, "100, ffl", f"{part}_seconds_paper").mean for part in PARTS] == [3.675, 4.883, 1.319]
    assert not any(each.name.startswith("paper-") for each in build_board("own", [runtime_record()]).tables)


def test_rows_beside_the_paper_are_in_the_order_of_the_number_of_updates():
    records = [runtime_record(name, n, 0.1, task="adult-mlp") for n in (100, 10, 50) for name in ("median", "fedavg")]
    rows = [row.label for row in find_table(build_board("own", records), "paper-adult-mlp-runtime").rows]
    assert rows == [f"{n}, {name}" for n in (10, 50, 100) for name in ("fedavg", "median")]


def test_settings_other_than_the_number_of_updates_stand_apart():
    records = [runtime_record("median", task="adult-mlp", measure={"threads": threads}) for threads in (1, 2)]
    names = [each.name for each in build_board("own", records).tables if each.name.startswith("paper-")]
    assert names == [f"paper-adult-mlp-threads-{threads}-runtime" for threads in (1, 2)]


@pytest.mark.parametrize("seed", range(3))
def test_exponents_are_those_of_least_squares_on_logarithms(seed):
    rng = np.random.default_rng(seed)
    points = {int(size): float(rng.uniform(0.1, 9)) for size in (10, 50, 100, 1000)}
    expected = np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0]
    assert log_log_slope(points) == pytest.approx(expected)
    assert log_log_slope(points | {7: 0.0}) == pytest.approx(expected)
    assert log_log_slope({10: 1.0}) is None


def runtime_record_with_growth(name, n, by_n=1.5, by_d=0.9, **fields):
    return runtime_record(name, n, lambda updates, columns: 1e-9 * updates**by_n * columns**by_d, **fields)


def test_growth_is_fitted_from_a_million_columns_on():
    records = [runtime_record_with_growth(name, n) for name in ("fedavg", "median") for n in (4, 8)]
    for each in records:
        # Fixed costs hide how shorter updates grow; a million counts.
        each.history.append({"columns": 999_999, "decryption": 0.0, "aggregation": 5.0, "participant": 0.0})
        each.history[0]["aggregation"] *= 2
    growth = find_table(build_board("own", records), "runtime-growth-digits-mlp")
    for name in ("fedavg", "median"):
        assert find_cell(growth, name, "server_exponent_n").mean == pytest.approx(1.5)
        x, y = np.log([1e6, 3e6, 1e7]), np.log([2 * 1e6**0.9, 3e6**0.9, 1e7**0.9])
        assert find_cell(growth, name, "server_exponent_d").mean == pytest.approx(np.polyfit(x, y, 1)[0])
    assert find_cell(growth, "median", "server_order").text == "n log n D"
    assert collect_runtime_growth([runtime_record(), runtime_record(updates=4)]) == []


def test_growth_is_fitted_on_each_large_model_apart():
    small = [runtime_record("median", n, 0.1 * n, task="small") for n in (4, 8)]
    large = [runtime_record_with_growth(name, n, 1, 1) for name in ("median", "fedavg") for n in (4, 8)]
    other = [runtime_record_with_growth("median", n, 2, 0.5, task="other") for n in (4, 8)]
    first, second = collect_runtime_growth([*small, *other, *large])
    assert (first.heading, second.heading) == ("digits-mlp", "other")
    assert first.costs["median"].exponents["server"] == pytest.approx((1, 1))
    assert second.costs["median"].exponents["server"] == pytest.approx((2, 0.5))


def test_growth_of_participants_stands_beside_that_of_the_server():
    records = [runtime_record_with_growth(name, n) for name in ("fedavg", "ffl") for n in (10, 100)]
    for record in records:
        for item in record.history if record.defense == "ffl" else ():
            item["participant"] = 1e-9 * item["columns"] ** 0.8
    growth = find_table(build_board("own", records), "runtime-growth-digits-mlp")
    assert find_cell(growth, "ffl", "participant_exponent_n").mean == pytest.approx(0, abs=1e-9)
    assert find_cell(growth, "ffl", "participant_exponent_d").mean == pytest.approx(0.8)
    assert find_cell(growth, "ffl", "participant_order").text == "n + D"
    assert find_cell(growth, "fedavg", "participant_exponent_d").mean is None


def test_brea_grows_by_the_orders_of_the_paper():
    records = [runtime_record_with_growth("fedavg", n) for n in (10, 100)]
    growth = find_table(build_board("own", records), "runtime-growth-digits-mlp")
    # With far more columns than updates n D + n² grows as both do.
    assert find_cell(growth, "BREA (computed)", "participant_exponent_n").mean == pytest.approx(1, abs=1e-3)
    assert find_cell(growth, "BREA (computed)", "participant_exponent_d").mean == pytest.approx(1, abs=1e-3)
    ratio = (np.log(100 * np.log(np.log(100))) / np.log(10 * np.log(np.log(10)))) ** 2
    found = find_cell(growth, "BREA (computed)", "server_exponent_n").mean
    assert found == pytest.approx(1 + np.log10(ratio), abs=1e-3)
    few = [runtime_record_with_growth("fedavg", n) for n in (2, 4)]
    growth = find_table(build_board("own", few), "runtime-growth-digits-mlp")
    assert find_cell(growth, "BREA (computed)", "server_exponent_n").mean is None


def test_growth_is_drawn_with_its_exponents_and_its_numbers_beside():
    records = [runtime_record_with_growth("median", n) for n in (4, 8)]
    (drawn,) = (
        each for each in draw_figures(records, build_board("own", records), no_arrays) if each.name == "scaling"
    )
    assert drawn.files["png"].startswith(b"\x89PNG")
    numbers = list(csv.DictReader(io.StringIO(drawn.files["csv"].decode())))
    assert {line["axis"] for line in numbers} == {"n", "D"}
    (found,) = (float(line["seconds"]) for line in numbers if (line["axis"], line["size"]) == ("n", "4"))
    assert found == pytest.approx(1e-9 * 4**1.5 * 1e7**0.9)
    assert not any(
        each.name == "scaling"
        for each in draw_figures([runtime_record()], build_board("own", [runtime_record()]), no_arrays)
    )


def test_a_cell_that_failed_is_left_out_of_costs_and_reported():
    records = [as_failed(runtime_record(), "no memory"), runtime_record("median", task="adult-mlp")]
    found = build_board("own", records)
    assert any("no memory" in flag for flag in found.flags)
    assert find_cell(find_table(found, "digits-mlp-runtime-all"), "fedavg", "seconds").text == "1 of 1 failed"


# Communication


@pytest.fixture(scope="module")
def mnist():
    return communication_records(["mnist-cnn"], ["fedavg", "ffl"])


def test_the_papers_way_comes_to_what_the_paper_prints(mnist):
    seconds = find_table(build_board("own", mnist), "seconds-mnist-cnn-communication")
    assert [row.label for row in seconds.rows] == ["fedavg", "ffl", "BREA (computed)"]
    # Table "Comparison of communication time" of the paper.
    for row, printed in (("fedavg", 0.1613), ("ffl", 0.6018), ("BREA (computed)", 21948.3658)):
        assert find_cell(seconds, row, "printed").mean == printed
        assert find_cell(seconds, row, "paper-total").mean == pytest.approx(printed, abs=1e-4)
    assert find_cell(seconds, "BREA (computed)", "sent").mean is None


def test_the_papers_seconds_of_communication_stand_beside_ours_by_part(mnist):
    found = find_table(build_board("own", mnist), "paper-mnist-cnn-communication_time")
    assert [row.label for row in found.rows] == ["fedavg", "ffl"]
    for part, printed in (("seconds.papers_way.between", 0.3241), ("seconds_the_papers_way", 0.6018)):
        assert find_cell(found, "ffl", f"{part}_paper").mean == printed
        assert find_cell(found, "ffl", part).mean == pytest.approx(printed, abs=1e-4)
        assert abs(find_cell(found, "ffl", f"{part}_difference").mean) < 1e-4


def test_brea_is_computed_by_the_papers_formula(mnist):
    seconds = find_table(build_board("own", mnist), "seconds-mnist-cnn-communication")
    # 21,840 parameters are 0.0874 MB; 100,000 participants; 31.01 Mbps down, 8.66 up; 29 ms.
    model, people, down, up = 87_400, 100_000, 31.01e6 / 8, 8.66e6 / 8
    assert find_cell(seconds, "BREA (computed)", "paper-server").mean == pytest.approx(
        model / down + (model + 4 * people) / up
    )
    assert find_cell(seconds, "BREA (computed)", "paper-between").mean == pytest.approx(2 * model * people / up)
    assert find_cell(seconds, "BREA (computed)", "paper-latency").mean == pytest.approx((3 + 2 * people) * 0.029)


def test_bytes_stand_by_kind_of_message(mnist):
    kinds = find_table(build_board("own", mnist), "bytes-mnist-cnn-communication")
    # Four bytes for each of 21,840 parameters.
    assert find_cell(kinds, "fedavg", "up update").mean == 87_360
    assert find_cell(kinds, "fedavg", "between masked vector").mean is None
    assert find_cell(kinds, "ffl", "between masked vector").mean >= 87_360
    total = sum(place.mean or 0 for place in next(row for row in kinds.rows if row.label == "ffl").cells)
    assert total == pytest.approx(next(each for each in mnist if each.labels["defense"] == "ffl").metrics["bytes"])


def test_another_network_has_a_table_of_its_own():
    found = build_board("own", communication_records(["digits-mlp"], ["fedavg"], latency=[29.0, 100.0]))
    (slow,) = (each for each in found.tables if each.name.startswith("seconds") and "latency = 100.0" in each.title)
    assert find_cell(slow, "fedavg", "paper-latency").mean == pytest.approx(0.2)
    assert "latency 100 ms" in slow.notes[0]


def test_bytes_grow_with_the_number_and_the_length_of_updates():
    records = [
        *communication_records(["digits-mlp"], ["fedavg", "ffl"], updates=[2, 4]),
        *communication_records(["adult-mlp"], ["fedavg", "ffl"], updates=2),
    ]
    growth = find_table(build_board("own", records), "communication-growth")
    exponents = {
        row: [find_cell(growth, row, f"{part}_exponent_{of}").mean for part in ("server", "participant") for of in "nd"]
        for row in ("fedavg", "ffl", "BREA (computed)")
    }
    # Framing and sealed seeds add bytes that do not depend on the length of updates.
    assert exponents["fedavg"] == pytest.approx([1, 1, 0, 1], abs=0.02)
    assert exponents["ffl"] == pytest.approx([1, 1, 0, 1], abs=0.15)
    # 2 n D + 2 D + 4 n bytes, of four bytes each.
    expected = np.log2((8 * 4 * 2410 + 8 * 2410 + 16) / (8 * 2 * 2410 + 8 * 2410 + 8))
    assert exponents["BREA (computed)"][2] == pytest.approx(expected)
    assert find_cell(growth, "ffl", "participant_order").text == "6 D + 6 c"
    alone = build_board("own", communication_records(["digits-mlp"], ["fedavg"]))
    assert not any(each.name == "communication-growth" for each in alone.tables)
