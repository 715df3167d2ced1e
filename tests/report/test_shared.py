"""Records that several defenses share, and rows that are labelled by how participants deviate."""

import pytest

from fflbench.records.record import Record, cell_id
from fflbench.records.store import Store
from fflbench.report import page
from fflbench.report.all_tables import STALE, build_board
from fflbench.report.figures import draw_figures
from fflbench.report.record_groups import expand_shared_records, group_records, row_label
from fflbench.report.reproduction_commands import reproduction_commands
from fflbench.report.show_record import record_text

from .synthetic_records import (
    WHOLE,
    find_cell,
    find_table,
    no_arrays,
    reconstruction_record,
    records_of_three_seeds,
    robustness_record,
    runtime_record,
)

SHARED = [
    reconstruction_record(seed=seed, psnr=40.0 + seed, shared_by={"median": {}, "nnm + median": {}})
    for seed in range(3)
] + [reconstruction_record("ffl", seed, psnr=9.0 + seed) for seed in range(3)]
NOTE = "Rows that share a transport share these cells."
PIVOT = "digits-mlp-reconstruction-analytic"


def test_a_shared_record_is_shown_in_every_row():
    found = find_table(build_board("own", SHARED), PIVOT)
    assert [row.label for row in found.rows] == [
        f"submission, {name}" for name in ("fedavg", "median", "nnm + median", "ffl")
    ]
    places = [find_cell(found, f"submission, {name}", "psnr") for name in ("fedavg", "median", "nnm + median")]
    assert {place.mean for place in places} == {41.0}
    assert {place.records for place in places} == {tuple(sorted(each.id for each in SHARED[:3]))}
    assert find_cell(found, "submission, ffl", "psnr").mean == 10.0
    assert [row.defense for row in found.rows] == ["fedavg", "median", "nnm + median", "ffl"]


def test_tables_of_shared_records_say_so_once():
    assert find_table(build_board("own", SHARED), PIVOT).notes.count(NOTE) == 1
    alone = [each.model_copy(update={"shared_by": {}}) for each in SHARED]
    assert NOTE not in find_table(build_board("own", alone), PIVOT).notes
    joined = find_table(build_board("own", [*WHOLE, *SHARED]), "overall-digits-mlp")
    assert "Rows that share a transport share values of reconstruction." in joined.notes
    assert find_cell(joined, "median", "reconstruction-psnr").mean == 41.0


def test_expanding_once_is_enough():
    once = list(expand_shared_records(SHARED))
    assert len(once) == 12
    assert list(expand_shared_records(once)) == once
    assert sum(len(group.records) for group in group_records(once)) == 12


def test_a_sweep_runs_through_every_row_that_shares_it():
    def at(value):
        swept = {"parameter": "warmup", "value": value, "label": "ffl"}
        return reconstruction_record(
            "ffl",
            psnr=value,
            parameters={"defense": {"warmup": value}},
            labels={"defense": f"ffl (warmup = {value})"},
            sweep={"defense": swept},
            shared_by={f"mixed (warmup = {value})": {**swept, "label": "mixed"}},
        )

    records = [at(value) for value in (2, 1)]
    for each in records:
        each.json_text()
    found = build_board("own", records)
    for name in ("ffl", "mixed"):
        sweep = find_table(found, f"sweep-digits-mlp-reconstruction-{name}-psnr")
        assert [place.mean for place in sweep.rows[0].cells] == [1.0, 2.0]


def test_flags_count_files_and_not_rows():
    old = SHARED[0].model_copy(update={"manifest": SHARED[0].manifest | {"results": {"core": 0}}})
    found = build_board("own", [old, *SHARED[1:]])
    assert any(flag.startswith("1 record of older results versions") for flag in found.flags)
    flags = {row.defense: row.flags for row in find_table(found, PIVOT).rows}
    assert flags["fedavg"] == flags["median"] == (STALE,)
    assert STALE not in flags["ffl"]


def test_the_page_lists_rows_that_share_records_and_holds_each_record_once():
    made = build_board("own", SHARED)
    text = page.render_leaderboard(
        made, SHARED, draw_figures(SHARED, made, no_arrays), reproduction_commands("own", SHARED, {})
    )
    assert '<tr data-defense="nnm + median">' in text
    assert '<input type="checkbox" name="defense" value="nnm + median" checked>' in text
    assert text.count(f'"id":"{SHARED[0].id}"') == 1


def test_show_names_who_shares_a_record(tmp_path):
    store = Store(tmp_path)
    store.write(SHARED[0])
    assert "shared by: median, nnm + median\n" in record_text(store.record_file(SHARED[0].id))


@pytest.mark.parametrize(
    ("shared_by", "reason"),
    [
        ({"fedavg": {}}, "its defense shares its result with itself"),
        ({"": {}}, "the label '' has 0 letters"),
        ({"x": {"parameter": "f", "value": 1, "label": "x"}}, "the sweep of its defense is over no parameter"),
        ({"x": {"parameter": "f"}}, "value"),
    ],
)
def test_a_record_that_is_shared_in_an_impossible_way_is_none(shared_by, reason):
    text = reconstruction_record().model_copy(update={"shared_by": shared_by}).model_dump_json()
    with pytest.raises(ValueError, match=reason):
        Record.parse(text.encode())


def test_a_measure_that_depends_on_everything_shares_nothing():
    with pytest.raises(ValueError, match="depends on every part of a defense"):
        Record.parse(robustness_record(shared_by={"median": {}}).model_dump_json().encode())


def test_a_record_holds_the_parts_that_its_measure_depends_on_and_no_others():
    whole = robustness_record().configuration["defense"]
    for made in (reconstruction_record(), runtime_record()):
        other = {"transport": whole["transport"]} if made.measure == "runtime" else whole
        configuration = made.configuration | {"defense": other}
        spoiled = made.model_copy(update={"configuration": configuration, "id": cell_id(configuration)})
        with pytest.raises(ValueError, match="its defense must have these parts and no others"):
            Record.parse(spoiled.model_dump_json().encode())


# Deviations


def test_rows_are_labelled_from_structure():
    plain, deviating = (
        robustness_record(defense="ffl"),
        robustness_record("gaussian-noise", "ffl", deviation={"strategy": 2}),
    )
    assert row_label(plain) == "ffl"
    assert row_label(deviating) == "ffl, strategy = 2"
    lookalike = robustness_record("gaussian-noise", "fedavg", labels={"defense": "fedavg, strategy 2"})
    assert row_label(lookalike) == "fedavg, strategy 2"
    found = find_table(build_board("own", [*WHOLE, lookalike, deviating]), "digits-mlp-robustness-gaussian-noise")
    assert {row.label: row.defense for row in found.rows} == {
        "fedavg (no attack)": "fedavg",
        "fedavg": "fedavg",
        "median": "median",
        "fedavg, strategy 2": "fedavg, strategy 2",
        "ffl, strategy = 2": "ffl",
    }


def test_records_without_deviation_stand_beside_the_worst_of_all_deviations():
    clean = [*records_of_three_seeds(), *records_of_three_seeds(defense="ffl", accuracy=0.8)]
    noisy = [
        *records_of_three_seeds(attack="gaussian-noise", accuracy=0.4),
        *records_of_three_seeds(attack="gaussian-noise", defense="ffl", accuracy=0.7, deviation={"strategy": 1}),
        *records_of_three_seeds(attack="gaussian-noise", defense="ffl", accuracy=0.6, deviation={"strategy": 2}),
    ]
    found = find_table(build_board("own", [*clean, *noisy]), "digits-mlp-robustness-accuracy")
    assert [row.label for row in found.rows] == ["fedavg", "ffl"]
    assert find_cell(found, "ffl", "none").mean == pytest.approx(0.81)
    assert find_cell(found, "ffl", "gaussian-noise").mean == pytest.approx(0.61)
    assert find_cell(found, "ffl", "gaussian-noise").note == "strategy = 2"
    assert "Of several deviations from a protocol the worst" in found.notes[0]


def test_one_deviation_is_not_called_the_worst_of_several():
    records = [
        *records_of_three_seeds(),
        *records_of_three_seeds(defense="ffl"),
        *records_of_three_seeds(attack="gaussian-noise", defense="ffl", accuracy=0.6, deviation={"strategy": 2}),
    ]
    found = find_table(build_board("own", records), "digits-mlp-robustness-accuracy")
    assert "Of several deviations" not in found.notes[0]
    assert find_cell(found, "ffl", "gaussian-noise").note == ""


def test_the_page_explains_the_fields_of_deviations():
    records = [*WHOLE, robustness_record("gaussian-noise", "ffl", deviation={"strategy": 2})]
    made = build_board("own", records)
    text = page.render_leaderboard(made, records, [], reproduction_commands("own", records, {}))
    words = text[text.index('id="words"') :]
    for word in ("<dt>strategy</dt>", "<dt>ffl</dt>", "<dt>fragment-exchange</dt>", "<dt>reputation</dt>"):
        assert word in words
    assert "<dt>plain</dt>" not in words
    assert '<tr data-defense="ffl">' in text


def test_a_deviation_without_attack_is_no_record():
    configuration = reconstruction_record("ffl").configuration | {
        "deviation": {"name": "fragment-exchange", "parameters": {}}
    }
    made = reconstruction_record("ffl").model_copy(
        update={"configuration": configuration, "id": cell_id(configuration)}
    )
    made = made.model_copy(update={"labels": made.labels | {"deviation": "x"}})
    with pytest.raises(ValueError, match="its configuration has"):
        Record.parse(made.model_dump_json().encode())
