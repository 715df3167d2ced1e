import pytest

from fflbench.execution.cell import play
from fflbench.report import contents, costs
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


def cells(measure, defenses=("fedavg", "median"), tasks=("digits-mlp",), **more):
    content = {"tasks": list(tasks), "defenses": list(defenses), "seeds": [0], "measure": measure, **more}
    return plan(parse(content, "own", "own.toml"))


@pytest.fixture(scope="module")
def timed():
    return [play(cell, "own") for cell in cells({"use": "runtime", "updates": [4, 8], "repeats": 2})]


def with_seconds(record, seconds):
    """The record as if it had measured other sizes."""
    n = record.configuration["measure"]["parameters"]["updates"]
    history = [
        {"columns": d, "decryption": 0.0, "aggregation": seconds(n, d), "mixing": 0.0}
        for d in (1_000_000, 3_000_000, 10_000_000)
    ]
    return record.model_copy(update={"history": history})


def test_a_runtime_table_has_a_row_for_each_number_of_updates_and_defense(timed):
    (sheet,) = costs.sheets(timed)
    assert [row[:2] for row in sheet.rows] == [("4", "fedavg"), ("4", "median"), ("8", "fedavg"), ("8", "median")]
    assert sheet.title == "digits-mlp: seconds a round takes, 2,410 columns"
    assert "1 thread of " in sheet.notes[0]
    assert "paper's own figures" in sheet.notes[0]


def test_the_papers_figures_stand_beside_ours_where_it_has_any(timed):
    record = timed[0]
    told = {"use": "runtime", "updates": 10, "repeats": 1}
    (adult,) = cells(told, defenses=["median"], tasks=["adult-mlp"])
    like_adult = record.model_copy(update={"configuration": dict(adult.configuration), "labels": dict(adult.labels)})
    (row,) = costs.sheets([like_adult])[0].rows
    assert (row[3], row[5], row[7]) == ("0", "0.002", "0")
    (row, *_) = costs.sheets(timed)[0].rows
    assert (row[3], row[5], row[7]) == ("", "", "")


def test_exponents_are_fitted_from_a_million_columns_on(timed):
    records = [with_seconds(record, lambda n, d: 1e-9 * n**1.5 * d**0.9) for record in timed]
    for in_n, in_d in costs.exponents(records).values():
        assert in_n == pytest.approx(1.5)
        assert in_d == pytest.approx(0.9)
    assert costs.exponents(timed) == {}
    growth = costs.sheets(records)[-1]
    assert growth.title == "How the server's time grows: digits-mlp"
    assert growth.rows[1] == ("median", "1.50", "0.90", "n log n D")


def test_growth_is_that_of_the_largest_model_alone(timed):
    large = [with_seconds(record, lambda n, d: 1e-9 * n * d) for record in timed]
    small = [
        with_seconds(record, lambda n, d: 5.0).model_copy(
            update={"labels": record.labels | {"task": "other"}, "facts": record.facts | {"columns": 7}}
        )
        for record in timed
    ]
    assert costs.exponents([*small, *large])["median"] == pytest.approx((1, 1))


def test_other_settings_and_seeds_have_tables_of_their_own():
    found = [play(cell, "own") for cell in cells({"use": "communication", "latency": [29.0, 100.0]}, ["fedavg"])]
    (slow,) = (sheet for sheet in costs.sheets(found) if "latency = 100.0" in sheet.title)
    assert slow.rows[0][3] == "0.2000"
    assert "latency 100 ms" in slow.notes[0]
    told = {"use": "runtime", "updates": 4, "repeats": 1}
    seeds = [play(cell, "own") for cell in cells(told, ["fedavg"], seeds=[0, 1])]
    first, second = costs.sheets(seeds)
    assert (first.title.split(":")[0], second.title.split(":")[0]) == ("digits-mlp, seed = 0", "digits-mlp, seed = 1")
    assert "±" not in first.rows[0][4]
    assert "of 1 run after" in first.notes[0]


def test_a_measure_without_a_table_of_its_own_is_shown_plainly(timed):
    configuration = timed[0].configuration | {"measure": {"name": "own-measure", "parameters": {}}}
    (sheet,) = costs.sheets([timed[0].model_copy(update={"configuration": configuration})])
    assert sheet.title == "own-measure"
    assert sheet.rows[0][3] == "seconds"


def test_growth_is_drawn_with_its_numbers_in_the_legend(timed):
    records = [with_seconds(record, lambda n, d: 1e-9 * n * d) for record in timed]
    made = contents.files("Own", records)
    assert made["scaling.png"].startswith(b"\x89PNG")
    assert b"<svg" in made["scaling.svg"]
    assert made["scaling.svg"] == contents.files("Own", records)["scaling.svg"]
    assert "scaling.png" not in contents.files("Own", timed)


def test_markdown_and_csv_hold_every_cell(timed):
    made = contents.files("Own", timed)
    page, lines = made["tables.md"].decode(), made["measures.csv"].decode().splitlines()
    assert page.startswith("# Own\n")
    assert page.count("| median |") == 2
    assert lines[0] == "id,task,measure,attack,defense,seed,status,metric,value"
    assert len(lines) == 1 + sum(len(record.metrics) for record in timed)


def test_communication_shows_the_papers_way_the_ledgers_and_brea_as_computed():
    found = [play(cell, "own") for cell in cells({"use": "communication"}, ["fedavg"], ["mnist-cnn"])]
    sheet, by_kind = costs.sheets(found)
    assert [row[0] for row in sheet.rows] == ["fedavg", "BREA (computed)"]
    assert sheet.rows[0][4:6] == ("0.1613", "0.1613")
    assert sheet.rows[1][4:6] == ("21,948.3658", "21,948.3658")
    assert sheet.rows[1][6:] == ("", "", "", "")
    assert sheet.rows[0][8:] == ("0.1748", "17.5")
    assert ("mnist-cnn", "fedavg", "up", "update", "87,360") in by_kind.rows


def test_a_cell_that_failed_is_told(timed):
    failed = timed[0].model_copy(update={"status": "failed", "metrics": {}, "history": [], "error": "no memory"})
    sheets = costs.sheets([failed, *timed[1:]])
    assert sheets[-1].title == "Cells that failed"
    assert sheets[-1].rows == (("digits-mlp", "runtime (updates = 4)", "fedavg", "no memory"),)
    assert ",failed," in contents.files("Own", [failed])["measures.csv"].decode()
