"""Records that several defenses share, and rows that are labelled by how participants deviate."""

import pytest

from fflbench.records.record import Record, identify
from fflbench.records.store import Store
from fflbench.report import page
from fflbench.report.board import STALE, board
from fflbench.report.commands import commands
from fflbench.report.figures import figures
from fflbench.report.groups import expanded, groups, row_of
from fflbench.report.show import show

from .synthetic import WHOLE, cell, no_arrays, rebuilt, robust, table, three_seeds, timed

SHARED = [rebuilt(seed=seed, psnr=40.0 + seed, shared_by={"median": {}, "nnm + median": {}}) for seed in range(3)] + [
    rebuilt("ffl", seed, psnr=9.0 + seed) for seed in range(3)
]
NOTE = "Rows that share a transport share these cells."
PIVOT = "digits-mlp-reconstruction-analytic"


def test_a_shared_record_is_shown_in_every_row():
    found = table(board("own", SHARED), PIVOT)
    assert [row.label for row in found.rows] == [
        f"submission, {name}" for name in ("fedavg", "median", "nnm + median", "ffl")
    ]
    places = [cell(found, f"submission, {name}", "psnr") for name in ("fedavg", "median", "nnm + median")]
    assert {place.mean for place in places} == {41.0}
    assert {place.records for place in places} == {tuple(sorted(each.id for each in SHARED[:3]))}
    assert cell(found, "submission, ffl", "psnr").mean == 10.0
    assert [row.defense for row in found.rows] == ["fedavg", "median", "nnm + median", "ffl"]


def test_tables_of_shared_records_say_so_once():
    assert table(board("own", SHARED), PIVOT).notes.count(NOTE) == 1
    alone = [each.model_copy(update={"shared_by": {}}) for each in SHARED]
    assert NOTE not in table(board("own", alone), PIVOT).notes
    joined = table(board("own", [*WHOLE, *SHARED]), "overall-digits-mlp")
    assert "Rows that share a transport share figures of reconstruction." in joined.notes
    assert cell(joined, "median", "reconstruction-psnr").mean == 41.0


def test_expanding_once_is_enough():
    once = list(expanded(SHARED))
    assert len(once) == 12
    assert list(expanded(once)) == once
    assert sum(len(group.records) for group in groups(once)) == 12


def test_a_sweep_runs_through_every_row_that_shares_it():
    def at(value):
        swept = {"parameter": "warmup", "value": value, "label": "ffl"}
        return rebuilt(
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
    found = board("own", records)
    for name in ("ffl", "mixed"):
        sweep = table(found, f"sweep-digits-mlp-reconstruction-{name}-psnr")
        assert [place.mean for place in sweep.rows[0].cells] == [1.0, 2.0]


def test_flags_count_files_and_not_rows():
    old = SHARED[0].model_copy(update={"manifest": SHARED[0].manifest | {"results": {"core": 0}}})
    found = board("own", [old, *SHARED[1:]])
    assert any(flag.startswith("1 record of older results versions") for flag in found.flags)
    flags = {row.defense: row.flags for row in table(found, PIVOT).rows}
    assert flags["fedavg"] == flags["median"] == (STALE,)
    assert STALE not in flags["ffl"]


def test_the_page_lists_rows_that_share_records_and_holds_each_record_once():
    made = board("own", SHARED)
    text = page.render(made, SHARED, figures(SHARED, made, no_arrays), commands("own", SHARED, {}))
    assert '<tr data-defense="nnm + median">' in text
    assert '<input type="checkbox" name="defense" value="nnm + median" checked>' in text
    assert text.count(f'"id":"{SHARED[0].id}"') == 1


def test_show_names_who_shares_a_record(tmp_path):
    store = Store(tmp_path)
    store.write(SHARED[0])
    assert "shared by: median, nnm + median\n" in show(store.file(SHARED[0].id))


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
    text = rebuilt().model_copy(update={"shared_by": shared_by}).model_dump_json()
    with pytest.raises(ValueError, match=reason):
        Record.parse(text.encode())


def test_a_measure_that_depends_on_everything_shares_nothing():
    with pytest.raises(ValueError, match="depends on every part of a defense"):
        Record.parse(robust(shared_by={"median": {}}).model_dump_json().encode())


def test_a_record_holds_the_parts_that_its_measure_depends_on_and_no_others():
    whole = robust().configuration["defense"]
    for made in (rebuilt(), timed()):
        other = {"transport": whole["transport"]} if made.measure == "runtime" else whole
        told = made.configuration | {"defense": other}
        spoiled = made.model_copy(update={"configuration": told, "id": identify(told)})
        with pytest.raises(ValueError, match="its defense must have these parts and no others"):
            Record.parse(spoiled.model_dump_json().encode())


# Deviations


def test_rows_are_labelled_from_structure():
    plain, deviating = robust(defense="ffl"), robust("gaussian-noise", "ffl", deviation={"strategy": 2})
    assert row_of(plain) == "ffl"
    assert row_of(deviating) == "ffl, strategy = 2"
    lookalike = robust("gaussian-noise", "fedavg", labels={"defense": "fedavg, strategy 2"})
    assert row_of(lookalike) == "fedavg, strategy 2"
    found = table(board("own", [*WHOLE, lookalike, deviating]), "digits-mlp-robustness-gaussian-noise")
    assert {row.label: row.defense for row in found.rows} == {
        "fedavg (no attack)": "fedavg",
        "fedavg": "fedavg",
        "median": "median",
        "fedavg, strategy 2": "fedavg, strategy 2",
        "ffl, strategy = 2": "ffl",
    }


def test_records_without_deviation_stand_beside_the_worst_of_all_deviations():
    clean = [*three_seeds(), *three_seeds(defense="ffl", accuracy=0.8)]
    noisy = [
        *three_seeds(attack="gaussian-noise", accuracy=0.4),
        *three_seeds(attack="gaussian-noise", defense="ffl", accuracy=0.7, deviation={"strategy": 1}),
        *three_seeds(attack="gaussian-noise", defense="ffl", accuracy=0.6, deviation={"strategy": 2}),
    ]
    found = table(board("own", [*clean, *noisy]), "digits-mlp-robustness-accuracy")
    assert [row.label for row in found.rows] == ["fedavg", "ffl"]
    assert cell(found, "ffl", "none").mean == pytest.approx(0.81)
    assert cell(found, "ffl", "gaussian-noise").mean == pytest.approx(0.61)
    assert cell(found, "ffl", "gaussian-noise").note == "strategy = 2"
    assert "Of several deviations from a protocol the worst" in found.notes[0]


def test_one_deviation_is_not_called_the_worst_of_several():
    records = [
        *three_seeds(),
        *three_seeds(defense="ffl"),
        *three_seeds(attack="gaussian-noise", defense="ffl", accuracy=0.6, deviation={"strategy": 2}),
    ]
    found = table(board("own", records), "digits-mlp-robustness-accuracy")
    assert "Of several deviations" not in found.notes[0]
    assert cell(found, "ffl", "gaussian-noise").note == ""


def test_the_page_explains_the_fields_of_deviations():
    records = [*WHOLE, robust("gaussian-noise", "ffl", deviation={"strategy": 2})]
    made = board("own", records)
    text = page.render(made, records, [], commands("own", records, {}))
    words = text[text.index('id="words"') :]
    for word in ("<dt>strategy</dt>", "<dt>ffl</dt>", "<dt>fragment-exchange</dt>", "<dt>reputation</dt>"):
        assert word in words
    assert "<dt>plain</dt>" not in words
    assert '<tr data-defense="ffl">' in text


def test_a_deviation_without_attack_is_no_record():
    told = rebuilt("ffl").configuration | {"deviation": {"name": "fragment-exchange", "parameters": {}}}
    made = rebuilt("ffl").model_copy(update={"configuration": told, "id": identify(told)})
    made = made.model_copy(update={"labels": made.labels | {"deviation": "x"}})
    with pytest.raises(ValueError, match="its configuration has"):
        Record.parse(made.model_dump_json().encode())
