"""Means, intervals and tests over seeds, against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fflbench.report.statistics import (
    best_and_tied,
    clopper_pearson_interval,
    estimate_mean,
    format_number,
    holm_adjusted_p_values,
    paired_difference,
    prediction_interval,
    worst_by_seed,
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


def test_the_worst_case_is_taken_seed_by_seed():
    noise, flip = {0: 0.9, 1: 0.5}, {0: 0.4, 1: 0.8}
    found = worst_by_seed([noise, flip])
    assert found == {0: 0.4, 1: 0.5}
    worst_of_means = min(np.mean(list(noise.values())), np.mean(list(flip.values())))
    assert np.mean(list(found.values())) == 0.45 != worst_of_means
    assert worst_by_seed([noise, flip], highest=True) == {0: 0.9, 1: 0.8}
    assert worst_by_seed([noise, {0: 0.1}]) == {0: 0.1}
    assert worst_by_seed([]) == {}


def test_best_is_only_who_every_test_tells_from_the_others():
    clear = {"a": {s: 0.9 + 0.001 * s for s in range(5)}, "b": {s: 0.5 + 0.002 * s for s in range(5)}}
    assert best_and_tied(clear, highest=True) == {"a": "best"}
    assert best_and_tied(clear, highest=False) == {"b": "best"}
    rng = np.random.default_rng(0)
    blurred = clear | {"c": {s: 0.9 + 0.001 * s + 0.01 * rng.normal() for s in range(5)}}
    assert best_and_tied(blurred, highest=True) == {"a": "tied", "c": "tied"}
    assert best_and_tied({"a": {0: 1.0}, "b": {0: 0.0}}, highest=True) == {"a": "tied", "b": "tied"}
    assert best_and_tied({}, highest=True) == {}


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
