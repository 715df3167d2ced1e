"""Tables that every measure gets: defenses by attacks or observations, and defenses by metrics."""

from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from fflbench.report.all_tables import build_board
from tests.report.synthetic_records import (
    WHOLE,
    as_diverged,
    as_failed,
    change_records_with_labels,
    find_cell,
    find_table,
    membership_record,
    reconstruction_record,
    records_of_three_seeds,
    records_with_labels,
    robustness_record,
    runtime_record,
)

NOISE = "digits-mlp-robustness-gaussian-noise"
BY_ATTACK = "digits-mlp-robustness-accuracy"


def build_table(records, name):
    return find_table(build_board("own", records), name)


# Defenses by attacks


def test_a_headline_metric_has_a_table_of_defenses_by_attacks_with_the_worst():
    by_attack = build_table(WHOLE, BY_ATTACK)
    assert by_attack.title == "digits-mlp, robustness: accuracy by attack"
    assert [column.title for column in by_attack.columns] == [
        *("no attack %", "gaussian-noise %", "noise-control %", "worst %")
    ]
    assert [row.label for row in by_attack.rows] == ["fedavg", "median"]
    assert find_cell(by_attack, "fedavg", "none").mean == pytest.approx(fmean((0.9, 0.91, 0.92)))
    assert find_cell(by_attack, "median", "gaussian-noise").mean == pytest.approx(0.86)


def test_the_worst_over_attacks_is_the_lowest_mean_and_leaves_out_no_attack():
    figures = {"none": (0.1, 0.1), "gaussian-noise": (0.9, 0.5), "noise-control": (0.4, 0.8)}
    records = [
        robustness_record(attack=attack, seed=seed, accuracy=value)
        for attack, values in figures.items()
        for seed, value in enumerate(values)
    ]
    assert find_cell(build_table(records, BY_ATTACK), "fedavg", "worst").mean == pytest.approx(0.6)


def test_one_column_makes_no_table():
    names = [each.name for each in build_board("own", records_of_three_seeds()).tables]
    assert BY_ATTACK not in names
    assert "digits-mlp-robustness-none" in names


def records_by_deviation(figures):
    """Attackers who deviate from a protocol in two ways, by the figures of each."""
    return [
        robustness_record(
            *("gaussian-noise", "ffl", seed, value),
            deviation={"strategy": number},
        )
        for number, values in figures.items()
        for seed, value in enumerate(values)
    ]


def test_of_several_deviations_the_strongest_by_the_mean_stands_with_its_name():
    clean = [robustness_record(defense=name, seed=seed) for name in ("fedavg", "ffl") for seed in (0, 1)]
    records = [*clean, *records_by_deviation({1: (0.9, 0.2), 2: (0.3, 0.7)})]
    place = find_cell(build_table(records, BY_ATTACK), "ffl", "gaussian-noise")
    assert place.mean == pytest.approx(0.5)
    assert place.note == "strategy = 2"
    rows = [row.label for row in build_table(records, NOISE).rows]
    assert rows == ["fedavg (no attack)", "ffl, strategy = 1", "ffl, strategy = 2"]


# Defenses by observations


ATTACKS, OBSERVATIONS = ("loss-threshold", "loss-difference"), ("submission", "pair-sum", "colluding-participant")
AREAS = {
    ("loss-threshold", "submission"): (0.5, 0.52),
    ("loss-difference", "submission"): (0.6, 0.4),
    ("loss-threshold", "pair-sum"): (0.7, 0.72),
    ("loss-difference", "pair-sum"): (0.9, 0.6),
    ("loss-threshold", "colluding-participant"): (0.74, 0.74),
    ("loss-difference", "colluding-participant"): (0.71, 0.75),
}
INFERRED = [
    membership_record(attack, defense, seed, observation, auc=value, rate=0.01 * seed)
    for defense in ("fedavg", "ffl")
    for (attack, observation), values in AREAS.items()
    for seed, value in enumerate(values)
    if defense == "ffl" or observation == "submission"
]
AREA = "digits-mlp-membership-auc"


def test_observations_are_columns_in_the_order_of_the_records():
    by_observation = build_table(INFERRED, AREA)
    assert [column.name for column in by_observation.columns] == [*OBSERVATIONS, "worst"]
    assert by_observation.columns[2].title == "colluding-participant (a participant colludes)"
    assert "must know: server view and a participant's view" in by_observation.columns[2].meaning


def test_the_strongest_attack_by_the_mean_over_seeds_stands_with_its_name():
    by_observation = build_table(INFERRED, AREA)
    means = {place: fmean(values) for place, values in AREAS.items()}
    for observation in OBSERVATIONS:
        best = max(ATTACKS, key=lambda attack: means[attack, observation])
        assert find_cell(by_observation, "ffl", observation).mean == pytest.approx(means[best, observation])
        assert find_cell(by_observation, "ffl", observation).note == best
    attack, observation = max(means, key=means.get)
    assert find_cell(by_observation, "ffl", "worst").mean == pytest.approx(means[attack, observation])
    assert find_cell(by_observation, "ffl", "worst").note == f"{attack}, {observation}"


def test_what_makes_no_sense_against_a_defense_is_empty():
    place = find_cell(build_table(INFERRED, AREA), "fedavg", "colluding-participant")
    assert (place.mean, place.text, place.note) == (None, "", "")


def test_a_rate_of_all_seeds_together_has_the_exact_interval_of_scipy():
    place = find_cell(
        build_table(INFERRED, "digits-mlp-membership-loss-threshold"), "submission, ffl", "tpr_at_fpr_0.01"
    )
    expected = stats.binomtest(0 + 1, 100 + 100).proportion_ci(0.95, method="exact")
    assert (place.mean, place.low, place.high) == pytest.approx((1 / 200, expected.low, expected.high))
    # Not a mean of shares: seeds with more trials count for more.
    longer = [membership_record(seed=0, rate=0.5), membership_record(seed=1, rate=0.0, facts={"members": 900})]
    place = find_cell(
        build_table(longer, "digits-mlp-membership-loss-difference"), "submission, fedavg", "tpr_at_fpr_0.01"
    )
    assert place.mean == pytest.approx(50 / 1000)


def test_a_floor_stands_beside_what_it_is_the_floor_of():
    records = [
        reconstruction_record(observation=observation, seed=seed)
        for observation in ("submission", "pair-sum")
        for seed in (0, 1)
    ]
    by_observation = build_table(records, "digits-mlp-reconstruction-psnr")
    assert find_cell(by_observation, "fedavg", "floor_psnr").mean == pytest.approx(10.5)
    assert by_observation.columns[-1].title == "floor, dB"


# A failed or missing attack never makes a defense look private


@pytest.mark.parametrize("harm", [as_failed, None])
def test_a_seed_that_failed_or_is_missing_spoils_its_column_and_the_worst(harm):
    victim = records_with_labels(INFERRED, defense="ffl", **{"privacy-attack": "loss-difference"})[2]
    records = [harm(each) if each is victim else each for each in INFERRED if harm or each is not victim]
    by_observation = build_table(records, AREA)
    assert find_cell(by_observation, "ffl", "pair-sum").text == "1 of 2 incomplete"
    assert find_cell(by_observation, "ffl", "worst").text == "1 of 6 incomplete"
    assert find_cell(by_observation, "ffl", "submission").mean is not None
    assert find_cell(by_observation, "fedavg", "submission").mean is not None
    under = build_table(records, "digits-mlp-membership-loss-difference")
    assert find_cell(under, "pair-sum, ffl", "auc").text == ("1 of 2 failed" if harm else "1 of 2 missing")


def test_an_observation_that_failed_everywhere_keeps_its_column_and_spoils_the_worst():
    label = {"measure": "membership (observation = colluding-participant)"}
    by_observation = build_table(change_records_with_labels(INFERRED, as_failed, **label), AREA)
    assert find_cell(by_observation, "ffl", "colluding-participant").text == "2 of 2 incomplete"
    assert find_cell(by_observation, "ffl", "worst").mean is None


# Missing, failed, diverged


@pytest.mark.parametrize(
    ("harm", "text", "worst"),
    [(as_failed, "1 of 3 failed", "incomplete"), (as_diverged, "1 of 3 diverged", "gaussian-noise, 1 of 3 diverged")],
)
def test_a_place_with_a_seed_in_trouble_says_so_and_has_no_figure(harm, text, worst):
    records = change_records_with_labels(WHOLE, harm, attack="gaussian-noise", defense="median", seed=0)
    under = build_table(records, NOISE)
    assert find_cell(under, "median", "accuracy").display_text(under.columns[1]) == text
    assert find_cell(under, "median", "accuracy_against_fedavg").mean is None
    by_attack = build_table(records, BY_ATTACK)
    assert find_cell(by_attack, "median", "gaussian-noise").text == text
    # A run that diverged counts as the worst, with a note; one that failed leaves no worst case.
    shown = find_cell(by_attack, "median", "worst")
    assert (shown.text or shown.note) == worst


def test_a_missing_seed_and_a_missing_attack_show():
    missing = [each for each in WHOLE if each not in records_with_labels(WHOLE, attack="gaussian-noise", seed=2)]
    assert find_cell(build_table(missing, NOISE), "median", "accuracy").text == "1 of 3 missing"
    gone = [each for each in WHOLE if each not in records_with_labels(WHOLE, attack="gaussian-noise", defense="median")]
    by_attack = build_table(gone, BY_ATTACK)
    assert find_cell(by_attack, "median", "gaussian-noise").text == ""
    assert find_cell(by_attack, "median", "worst").text == "incomplete"


def test_a_table_in_which_all_failed_says_so():
    under = build_table([as_failed(each) for each in records_of_three_seeds()], "digits-mlp-robustness-none")
    assert find_cell(under, "fedavg", "accuracy").text == "3 of 3 failed"


# Defenses by metrics


def test_the_baseline_without_attack_stands_above_those_under_one():
    assert [row.label for row in build_table(WHOLE, NOISE).rows] == ["fedavg (no attack)", "fedavg", "median"]
    assert [row.label for row in build_table(WHOLE, "digits-mlp-robustness-none").rows] == ["fedavg", "median"]
    assert find_cell(build_table(WHOLE, NOISE), "fedavg (no attack)", "accuracy").mean == pytest.approx(0.91)
    assert find_cell(build_table(WHOLE, NOISE), "fedavg (no attack)", "accuracy").mark == ""


def test_an_attack_on_one_class_is_judged_by_that_class():
    names = [column.name for column in build_table(WHOLE, "digits-mlp-robustness-label-flipping").columns]
    assert names[:3] == ["test_loss", "source_accuracy", "attack_success_rate"]
    assert [column.name for column in build_table(WHOLE, NOISE).columns][:2] == ["test_loss", "accuracy"]


def test_differences_from_fedavg_are_paired_and_holm_corrected():
    rng = np.random.default_rng(3)
    figures = {name: 0.5 + 0.05 * rng.normal(size=5) for name in ("fedavg", "median", "krum", "trimmed-mean")}
    figures["median"] += 0.2
    records = [
        robustness_record("gaussian-noise", name, s, float(v)) for name, of in figures.items() for s, v in enumerate(of)
    ]
    under = build_table(records, NOISE)
    others = [name for name in figures if name != "fedavg"]
    raw = {name: stats.ttest_rel(figures[name], figures["fedavg"]).pvalue for name in others}
    highest = 0.0
    for rank, name in enumerate(sorted(raw, key=raw.get)):
        highest = max(highest, min(1.0, (len(raw) - rank) * raw[name]))
        place = find_cell(under, name, "accuracy_against_fedavg")
        assert place.mean == pytest.approx(np.mean(figures[name] - figures["fedavg"]))
        assert place.note == ("p < 0.001" if highest < 0.001 else f"p = {highest:.3f}")
    assert find_cell(under, "fedavg", "accuracy_against_fedavg").mean is None


def test_who_is_best_is_decided_by_tests_and_one_seed_tests_nothing():
    under = build_table(WHOLE, NOISE)
    assert [find_cell(under, name, "accuracy").mark for name in ("fedavg", "median")] == ["", "best"]
    assert find_cell(build_table(WHOLE, BY_ATTACK), "median", "worst").mark == "best"
    level = [
        robustness_record("gaussian-noise", name, s, 0.5 + 0.1 * s * (name == "median"))
        for name in "ab"
        for s in (0, 1)
    ]
    assert [row.cells[1].mark for row in build_table(level, NOISE).rows] == ["tied", "tied"]
    single = [each for each in WHOLE if each.seed == 0]
    every = [place for each in build_board("own", single).tables for row in each.rows for place in row.cells]
    assert {place.mark for place in every} == {""}
    assert not any("against" in column.name for column in build_table(single, NOISE).columns)


def test_survivors_of_a_troubled_row_are_not_compared():
    records = change_records_with_labels(WHOLE, as_diverged, attack="gaussian-noise", defense="median", seed=1)
    under = build_table(records, NOISE)
    assert find_cell(under, "median", "accuracy_against_fedavg").mean is None
    assert find_cell(under, "median", "accuracy").mark == ""
    spoiled = change_records_with_labels(WHOLE, as_diverged, attack="gaussian-noise", defense="fedavg", seed=1)
    assert not any("against" in column.name for column in build_table(spoiled, NOISE).columns)


def test_figures_of_other_machines_are_neither_ranked_nor_compared():
    under = build_table(
        [runtime_record(name, seed=seed) for name in ("fedavg", "median") for seed in (0, 1)], "digits-mlp-runtime-all"
    )
    assert all(place.mark == "" for row in under.rows for place in row.cells)
    assert not any("against" in column.name for column in under.columns)
    assert any("Measured on x" in note for note in under.notes)


def test_settings_that_differ_stand_apart_and_say_how():
    records = [*INFERRED, *(membership_record(measure={"members": count}) for count in (7, 50))]
    titles = [each.title for each in build_board("own", records).tables if "under loss-difference" in each.title]
    assert titles == [f"digits-mlp, membership (members = {n}) under loss-difference" for n in (7, 50, 100)]


def test_rounds_that_kept_the_model_and_had_more_attackers_than_f_are_flagged():
    facts = {"rounds_that_kept_the_model": 2, "rounds_with_more_attackers_than_f": 1, "flags": ["f = 0 of 4"]}
    loud = [
        robustness_record("gaussian-noise", "krum", seed, history=[{"round": 1, "accuracy": 0.1}] * 10, facts=facts)
        for seed in (0, 1)
    ]
    under = build_table([*(robustness_record("gaussian-noise", seed=seed) for seed in (0, 1)), *loud], NOISE)
    rows = {row.label: row.flags for row in under.rows}
    assert rows["fedavg"] == ()
    assert rows["krum"] == (
        "f = 0 of 4",
        "there was no usable aggregate and the model was kept in 4 of 20 rounds",
        "more attackers than f were selected in 2 of 20 rounds",
    )


def test_of_several_deviations_that_diverged_the_one_with_most_is_named():
    made = [
        robustness_record("gaussian-noise", "ffl", seed=seed, deviation={"strategy": strategy})
        for strategy in (1, 2)
        for seed in range(3)
    ]
    diverged = [
        as_diverged(record) if record.seed in seeds else record
        for record, seeds in zip(made, [{0}] * 3 + [{0, 1}] * 3, strict=True)
    ]
    table = find_table(build_board("own", [*WHOLE, *diverged]), "digits-mlp-robustness-accuracy")
    assert find_cell(table, "ffl", "gaussian-noise").text == "2 of 3 diverged, strategy = 2"
