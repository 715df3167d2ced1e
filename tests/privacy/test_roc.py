"""Curves against the definitions, and against libraries that others trust."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from fflbench.privacy.roc import by_chance, curve, exact_interval

judged = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60).filter(
    lambda told: len({member for _, member in told}) == 2
)


def parted(told):
    scores, members = zip(*told, strict=True)
    return np.array(scores, float), np.array(members)


@given(judged)
def test_the_area_is_the_chance_that_a_member_scores_higher(told):
    scores, members = parted(told)
    wins = [
        1.0 if one > other else 0.5 if one == other else 0.0 for one in scores[members] for other in scores[~members]
    ]
    assert curve(scores, members).area == pytest.approx(np.mean(wins))
    assert curve(scores, members).area == pytest.approx(roc_auc_score(members, scores))


@given(judged, st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 1.0]))
def test_true_positives_are_the_most_that_a_threshold_allows(told, level):
    scores, members = parted(told)
    rates = [0.0]
    for threshold in scores:
        if np.mean(scores[~members] >= threshold) <= level:
            rates.append(np.mean(scores[members] >= threshold))
    assert curve(scores, members).drawn(level) == pytest.approx(max(rates))


def test_what_is_no_number_says_nothing():
    members = np.array([True, True, False, False])
    assert curve(np.array([2.0, np.nan, 1.0, np.nan]), members).area == pytest.approx(5 / 8)


@given(st.integers(1, 300), st.data())
def test_intervals_are_exact(tried, data):
    found = data.draw(st.integers(0, tried))
    wanted = binomtest(found, tried).proportion_ci(0.95, "exact")
    assert exact_interval(found, tried) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@pytest.mark.parametrize("others", [100, 240, 1000])
def test_by_chance_no_more_members_are_told_than_the_level_says(others):
    rng = np.random.default_rng(0)
    members = np.arange(500 + others) < 500
    rates = [curve(rng.normal(size=len(members)), members).at(0.01, others) for _ in range(1000)]
    assert 0.007 < np.mean(rates) < 0.0105


def test_others_who_come_several_times_count_once():
    rng = np.random.default_rng(0)
    members = np.arange(1500) < 500
    rates = []
    for _ in range(1000):
        other = np.repeat(rng.normal(size=250), 4)
        rates.append(curve(np.concatenate([rng.normal(size=500), other]), members).at(0.01, 250))
    assert 0.006 < np.mean(rates) < 0.0105


def test_scores_that_tell_nothing_stay_within_what_chance_allows():
    rng = np.random.default_rng(0)
    members = np.arange(300) % 3 == 0
    inside = [abs(curve(rng.normal(size=300), members).area - 0.5) <= by_chance(100, 200) for _ in range(1000)]
    assert 0.93 < np.mean(inside) < 0.97
