"""Curves against the definitions, and against libraries that others trust."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from fflbench.privacy.roc import chance_auc_half_width, clopper_pearson_interval, roc_curve

scored = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60).filter(
    lambda labelled: len({member for _, member in labelled}) == 2
)


def scores_and_members(labelled):
    scores, members = zip(*labelled, strict=True)
    return np.array(scores, float), np.array(members)


@given(scored)
def test_the_area_is_the_chance_that_a_member_scores_higher(labelled):
    scores, members = scores_and_members(labelled)
    wins = [
        1.0 if one > other else 0.5 if one == other else 0.0 for one in scores[members] for other in scores[~members]
    ]
    assert roc_curve(scores, members).auc == pytest.approx(np.mean(wins))
    assert roc_curve(scores, members).auc == pytest.approx(roc_auc_score(members, scores))


@given(scored, st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 1.0]))
def test_true_positives_are_the_most_that_a_threshold_allows(labelled, level):
    scores, members = scores_and_members(labelled)
    rates = [0.0]
    for threshold in scores:
        if np.mean(scores[~members] >= threshold) <= level:
            rates.append(np.mean(scores[members] >= threshold))
    assert roc_curve(scores, members).tpr_at_empirical_fpr(level) == pytest.approx(max(rates))


def test_what_is_no_number_says_nothing():
    members = np.array([True, True, False, False])
    assert roc_curve(np.array([2.0, np.nan, 1.0, np.nan]), members).auc == pytest.approx(5 / 8)


@given(st.integers(1, 300), st.data())
def test_intervals_are_exact(tried, data):
    found = data.draw(st.integers(0, tried))
    wanted = binomtest(found, tried).proportion_ci(0.95, "exact")
    assert clopper_pearson_interval(found, tried) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@pytest.mark.parametrize("others", [100, 240, 1000])
def test_random_scores_identify_no_more_members_than_the_false_positive_rate(others):
    rng = np.random.default_rng(0)
    members = np.arange(500 + others) < 500
    rates = [roc_curve(rng.normal(size=len(members)), members).tpr_at_expected_fpr(0.01, others) for _ in range(1000)]
    assert 0.007 < np.mean(rates) < 0.0105


def test_others_who_come_several_times_count_once():
    rng = np.random.default_rng(0)
    members = np.arange(1500) < 500
    rates = []
    for _ in range(1000):
        other = np.repeat(rng.normal(size=250), 4)
        rates.append(roc_curve(np.concatenate([rng.normal(size=500), other]), members).tpr_at_expected_fpr(0.01, 250))
    assert 0.006 < np.mean(rates) < 0.0105


def test_scores_that_tell_nothing_stay_within_what_chance_allows():
    rng = np.random.default_rng(0)
    members = np.arange(300) % 3 == 0
    inside = [
        abs(roc_curve(rng.normal(size=300), members).auc - 0.5) <= chance_auc_half_width(100, 200) for _ in range(1000)
    ]
    assert 0.93 < np.mean(inside) < 0.97
