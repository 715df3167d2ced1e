"""Means, intervals and tests over seeds, against scipy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fflbench.report.statistics import (
    clopper_pearson_interval,
    estimate_mean,
    format_number,
    holm_adjusted_p_values,
    paired_difference,
    prediction_interval,
    worst_mean,
)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12).filter(lambda values: np.std(values) > 1e-6))
def test_intervals_are_those_of_scipy(values):
    found = estimate_mean(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.half_width == pytest.approx((high - low) / 2, rel=1e-6)


def test_one_seed_has_no_interval():
    assert estimate_mean([0.5]).half_width is None


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=8))
def test_paired_differences_are_those_of_scipy(pairs):
    ours, theirs = (dict(enumerate(side)) for side in zip(*pairs, strict=True))
    if np.std([a - b for a, b in pairs]) < 1e-6:
        return
    found = paired_difference(ours, theirs)
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values()))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    low, high = expected.confidence_interval(0.95)
    assert found.estimate.half_width == pytest.approx((high - low) / 2, rel=1e-6)


def test_only_shared_seeds_are_compared():
    found = paired_difference({0: 1.0, 1: 2.0, 7: 100.0}, {0: 0.5, 1: 1.0, 9: -100.0})
    assert found.estimate.mean == 0.75
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_a_difference_without_any_spread_is_not_tested():
    assert paired_difference({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}).p is None
    assert paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).p == 1.0


def test_holms_correction_is_the_published_one():
    # The example of R's p.adjust: sort, multiply by 4, 3, 2, 1, never fall.
    assert holm_adjusted_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_adjusted_p_values([0.9, 0.8]) == [1.0, 1.0]
    assert holm_adjusted_p_values([]) == []


def test_the_worst_is_the_lowest_mean_and_not_the_mean_of_the_lowest():
    noise, flip = {0: 0.9, 1: 0.5}, {0: 0.4, 1: 0.8}
    found = worst_mean({"noise": noise, "flip": flip}, highest=False)
    assert (found.name, found.estimate.mean) == ("flip", pytest.approx(0.6))
    assert worst_mean({"noise": noise, "flip": flip}, highest=True).name == "noise"
    assert worst_mean({"noise": {0: 0.9}, "flip": {0: 0.4}}, highest=False).estimate.interval is None


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_without_a_choice_the_interval_is_students(values):
    by_seed = dict(enumerate(values))
    assert worst_mean({"only": by_seed}, highest=False).estimate == estimate_mean(values)


@given(st.integers(2, 4), st.integers(1, 3), st.integers(0, 1000))
def test_bootstrap_samples_are_all_ways_to_draw_the_seeds(seeds, attacks, seed):
    values = np.random.default_rng(seed).normal(size=(attacks + 1, seeds))
    figures = {str(place): dict(enumerate(row)) for place, row in enumerate(values)}
    drawn = np.array(list(itertools.product(range(seeds), repeat=seeds)))
    lowest = np.sort(values[:, drawn].mean(2).min(0))
    tail = stats.norm.cdf(-np.sqrt(seeds / (seeds - 1)) * stats.t.ppf(0.975, seeds - 1))
    low, high = worst_mean(figures, highest=False).estimate.interval
    assert low == pytest.approx(lowest[max(0, int(np.ceil(tail * len(lowest))) - 1)])
    assert high == pytest.approx(lowest[int(np.ceil((1 - tail) * len(lowest))) - 1])


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("attacks", [2, 12])
def test_intervals_of_the_worst_case_hold_the_worst_true_mean_in_about_nine_of_ten_tables(seeds, attacks):
    rng = np.random.default_rng(2)
    true, inside = np.linspace(0, 3, attacks), 0
    for _ in range(500):
        values = true[:, None] + rng.normal(size=(1, seeds)) + rng.normal(size=(attacks, seeds))
        figures = {str(place): dict(enumerate(row)) for place, row in enumerate(values)}
        low, high = worst_mean(figures, highest=False).estimate.interval
        inside += low <= 0 <= high
    # Of many attacks that are nearly as strong, the lowest mean is below the lowest true one.
    assert inside / 500 > 0.87


def test_one_more_seed_falls_where_predicted_as_often_as_promised():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        *known, new = rng.normal(size=6)
        low, high = prediction_interval(known)
        inside += low <= new <= high
    assert 0.93 < inside / 2000 < 0.97
    assert prediction_interval([1.0]) is None


def test_predictions_of_shares_stay_within_0_and_1():
    assert prediction_interval([0.9, 0.95, 0.99], 0.99, is_share=True)[1] == 1.0
    assert prediction_interval([0.0, 0.05, 0.01], 0.99, is_share=True)[0] == 0.0
    assert prediction_interval([0.9, 0.95, 0.99], 0.99)[1] > 1.0


@given(st.integers(1, 300), st.data())
def test_exact_intervals_are_those_of_scipy(tried, data):
    found = data.draw(st.integers(0, tried))
    expected = stats.binomtest(found, tried).proportion_ci(0.95, method="exact")
    assert clopper_pearson_interval(found, tried) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(
    ("value", "text"), [(9999.4, "9999.4"), (10_000, "1.00e+04"), (-123_456, "-1.23e+05"), (0.0, "0.0")]
)
def test_large_numbers_are_shown_as_powers_of_ten(value, text):
    assert format_number(value, 1, 1e4) == text
