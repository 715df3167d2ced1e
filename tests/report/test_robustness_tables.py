"""Worst cases over attacks, and what attacks gain beyond what happens without them."""

from statistics import fmean

import numpy as np
import pytest

from fflbench.report.board import board
from fflbench.report.statistics import estimate
from tests.report.synthetic import WHOLE, cell, changed, chosen, diverged, failed, robust, table, three_seeds

SUMMARY = "digits-mlp-summary"


def summary(records):
    return table(board("own", records), SUMMARY)


def test_the_summary_has_the_worst_accuracy_every_excess_and_the_cost_without_attack():
    found = summary(WHOLE)
    assert [column.name for column in found.columns] == ["worst_accuracy", "label-flipping", "clean_cost"]
    assert cell(found, "fedavg", "worst_accuracy").mean == pytest.approx(fmean((0.3, 0.31, 0.32)))
    assert cell(found, "median", "worst_accuracy").mean == pytest.approx(0.86)
    assert cell(found, "median", "worst_accuracy").mark == "best"
    assert cell(found, "fedavg", "label-flipping").mean == pytest.approx(0.5)
    assert cell(found, "median", "clean_cost").mean == pytest.approx(-0.02)


@pytest.mark.parametrize("seed", range(5))
def test_worst_and_excess_are_as_defined(seed):
    rng = np.random.default_rng(seed)
    untargeted, defenses, seeds = ("gaussian-noise", "noise-control"), ("fedavg", "median"), range(3)
    places = [(a, d, s) for a in ("none", *untargeted, "label-flipping") for d in defenses for s in seeds]
    accuracy, success = ({place: float(rng.uniform()) for place in places} for _ in range(2))
    found = summary([robust(*place, accuracy[place], success[place]) for place in places])
    for d in defenses:
        worst = [min(accuracy[a, d, s] for a in untargeted) for s in seeds]
        excess = [success["label-flipping", d, s] - success["none", "fedavg", s] for s in seeds]
        cost = [accuracy["none", d, s] - accuracy["none", "fedavg", s] for s in seeds]
        for name, values in (("worst_accuracy", worst), ("label-flipping", excess), ("clean_cost", cost)):
            place, expected = cell(found, d, name), estimate(values)
            assert place.mean == pytest.approx(expected.mean)
            low = max(expected.mean - expected.half_width, 0.0 if name == "worst_accuracy" else -1.0)
            assert place.low == pytest.approx(low)


def test_the_worst_excess_is_the_highest_of_each_seed():
    free = [robust(seed=seed, success=0.1) for seed in (0, 1)]
    flips = [
        robust(
            "label-flipping", seed=seed, success=value, labels={"attack": name}, parameters={"attack": {"share": place}}
        )
        for place, (name, values) in enumerate((("flip 1", (0.9, 0.2)), ("flip 2", (0.3, 0.8))))
        for seed, value in enumerate(values)
    ]
    assert cell(summary(free + flips), "fedavg", "worst_excess").mean == pytest.approx((0.9 + 0.8) / 2 - 0.1)


def test_targeted_attacks_count_in_excess_of_the_attack_free_rate():
    clean = [robust(seed=seed, success=0.45) for seed in range(2)]
    hit = [robust("label-flipping", seed=seed, success=0.6) for seed in range(2)]
    assert cell(summary(clean + hit), "fedavg", "label-flipping").mean == pytest.approx(0.15)


def test_without_an_attack_free_baseline_there_is_no_excess():
    records = [
        *(robust("label-flipping", seed=seed, success=0.6) for seed in range(2)),
        *(robust("gaussian-noise", seed=seed, success=0.2) for seed in range(2)),
    ]
    place = cell(summary(records), "fedavg", "label-flipping")
    assert (place.mean, place.text) == (None, "no attack-free baseline")
    unscored = [robust(seed=seed, metrics={"attack_success_rate": None}) for seed in range(2)]
    assert cell(summary([*unscored, *records]), "fedavg", "label-flipping").mean is None
    assert cell(summary(WHOLE[1:]), "median", "clean_cost").text == "no attack-free baseline"


def of_strategies(figures, attack="gaussian-noise", defense="ffl"):
    return [
        robust(
            *(attack, defense, seed, value),
            deviation={"strategy": number},
        )
        for number, values in figures.items()
        for seed, value in enumerate(values)
    ]


FIGURES = {1: (0.9, 0.2), 2: (0.3, 0.8)}


def test_each_seed_counts_with_its_worst_deviation():
    clean = [robust(defense=name, seed=seed) for name in ("fedavg", "ffl") for seed in (0, 1)]
    records = [*clean, *of_strategies(FIGURES)]
    assert cell(summary(records), "ffl", "worst_accuracy").mean == pytest.approx((0.3 + 0.2) / 2)
    spoiled = [failed(each) if each is records[-1] else each for each in records]
    assert cell(summary(spoiled), "ffl", "worst_accuracy").text == "1 of 2 failed"


def test_a_suite_without_fedavg_compares_with_its_first_defense_whatever_the_strategies():
    clean = [robust(defense=name, seed=seed, accuracy=0.9) for name in ("ffl", "median") for seed in (0, 1)]
    found = summary([*of_strategies(FIGURES), *clean])
    assert found.columns[-1].title == "no attack, against ffl %"
    assert cell(found, "median", "clean_cost").mean == pytest.approx(0)


@pytest.mark.parametrize(("harm", "text"), [(failed, "incomplete"), (diverged, "diverged")])
def test_a_seed_in_trouble_leaves_no_worst_case(harm, text):
    found = summary(changed(WHOLE, harm, attack="gaussian-noise", defense="median", seed=0))
    assert cell(found, "median", "worst_accuracy").text == text
    assert cell(found, "fedavg", "worst_accuracy").mean is not None


def test_an_attack_that_was_not_run_leaves_no_worst_case():
    gone = [each for each in WHOLE if each not in chosen(WHOLE, attack="gaussian-noise", defense="median")]
    assert cell(summary(gone), "median", "worst_accuracy").text == "incomplete"


def test_a_single_seed_says_so():
    assert cell(summary([each for each in WHOLE if each.seed == 0]), "median", "clean_cost").note == "1 seed"


def test_epsilon_is_the_largest_over_seeds_and_others_promise_none():
    promised = [
        robust(defense="ldp", seed=seed, facts={"guarantee": {"epsilon": value}})
        for seed, value in enumerate((5.0, 7.0))
    ]
    found = summary([*(robust(seed=seed) for seed in (0, 1)), *promised])
    assert cell(found, "ldp", "epsilon").mean == 7.0
    assert cell(found, "fedavg", "epsilon").text == "none"


@pytest.mark.parametrize("promise", [None, {"epsilon": None}])
def test_a_promise_that_is_none_is_no_promise(promise):
    found = summary([robust(defense="ldp", facts={"guarantee": promise}), robust()])
    assert "epsilon" not in [column.name for column in found.columns]


def test_honest_participants_who_are_excluded_are_counted():
    records = [
        robust(attack, "ffl", facts={"honest_excluded": count})
        for attack, count in (("none", 1), ("gaussian-noise", 4))
    ]
    assert cell(summary(records), "ffl", "honest_excluded").mean == 2.5


def test_an_attack_weaker_than_noise_is_flagged():
    assert any("gaussian-noise takes less accuracy" in flag for flag in board("own", WHOLE).flags)
    others = [each for each in WHOLE if each.labels["attack"] != "noise-control"]
    strong = [*others, *three_seeds(attack="noise-control", accuracy=0.7)]
    assert not any("takes less accuracy" in flag for flag in board("own", strong).flags)
    assert any("noise-control was not run" in flag for flag in board("own", others).flags)


def test_intervals_are_over_the_worst_of_each_seed():
    place = cell(summary(WHOLE), "fedavg", "worst_accuracy")
    assert place.high - place.mean == pytest.approx(estimate([0.3, 0.31, 0.32]).half_width)
