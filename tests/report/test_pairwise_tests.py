"""Ranks of defenses: against scipy, and their errors and power on synthetic tables with five seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fflbench.report.pairwise_tests import moderated_p_values, ranks

SEEDS = 5
TABLES = 250


def by_seed(values):
    return {place: dict(enumerate(row)) for place, row in enumerate(values)}


def spreads(kind, rng, defenses):
    """Return the standard deviation of each defense over seeds, in points."""
    return {
        "equal": np.ones(defenses),
        "of all sizes": 10 ** rng.uniform(-0.5, 1, defenses),
        "small, and large for those that fell": np.where(rng.random(defenses) < 0.7, 0.5, 8.0),
    }[kind]


def table(rng, means, deviations):
    """Return accuracies by defense and seed: seeds have an effect on all defenses, beside each one's own spread."""
    shape = len(means), SEEDS
    return np.asarray(means)[:, None] + rng.normal(size=(1, SEEDS)) + deviations[:, None] * rng.normal(size=shape)


@pytest.mark.parametrize("kind", ["equal", "of all sizes", "small, and large for those that fell"])
@pytest.mark.parametrize("defenses", [3, 6, 15])
def test_equal_defenses_are_told_apart_in_at_most_one_table_of_twenty(kind, defenses):
    rng = np.random.default_rng(defenses)
    wrong = 0
    for _ in range(TABLES):
        values = table(rng, np.zeros(defenses), spreads(kind, rng, defenses))
        wrong += set(ranks(by_seed(values), highest=True).values()) != {1}
    # One-sided: 0.9% of experiments with a true rate of 5% have more than these.
    assert wrong <= stats.binom.ppf(0.991, TABLES, 0.05)


@pytest.mark.parametrize("kind", ["equal", "small, and large for those that fell"])
def test_a_gap_of_five_points_is_found_in_at_least_four_of_five_tables(kind):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(100):
        deviations = spreads(kind, rng, 15)
        deviations[[0, 8]] = 1.0
        values = table(rng, [95.0] * 8 + [90.0] * 7, deviations)
        rank = ranks(by_seed(values), highest=True)
        found.append(rank[8] > rank[0])
    assert np.mean(found) >= 0.8


def test_plain_t_tests_with_the_same_correction_would_miss_most_of_these_gaps():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(100):
        values = table(rng, [95.0] * 8 + [90.0] * 7, np.ones(15))
        found.append(stats.ttest_rel(values[0], values[8]).pvalue < 0.05 / (15 * 14 / 2))
    assert np.mean(found) < 0.5


@given(st.integers(2, 8), st.integers(0, 1000))
def test_one_pair_is_tested_as_by_scipy(seeds, seed):
    first, second = np.random.default_rng(seed).normal(size=(2, seeds))
    found = moderated_p_values((first - second)[None], 2)
    assert found == pytest.approx(stats.ttest_rel(first, second).pvalue)


def test_equal_variances_are_pooled():
    # Rows of equal spread: the common variance is theirs, and all degrees of freedom of the table count.
    base = np.array([-1.0, 0.0, 1.0, 0.5, -0.5])
    means = np.linspace(0, 2, 15)
    differences = means[:, None] + np.stack([np.roll(base, place) for place in range(15)])
    variance = base.var(ddof=1)
    expected = 2 * stats.t.sf(means / np.sqrt(variance / 5), (6 - 1) * 4)
    assert moderated_p_values(differences, 6) == pytest.approx(expected)


def test_a_rank_counts_those_who_are_better():
    rng = np.random.default_rng(0)
    values = np.array([0.9, 0.9, 0.5, 0.1])[:, None] + 0.01 * rng.normal(size=(4, 5))
    assert list(ranks(by_seed(values), highest=True).values()) == [1, 1, 3, 4]
    assert list(ranks(by_seed(values), highest=False).values()) == [3, 3, 2, 1]


def test_shared_runs_and_runs_without_spread_are_ties_or_clear():
    same = dict(enumerate([0.5, 0.6, 0.7]))
    assert ranks({"a": same, "b": dict(same)}, highest=True) == {"a": 1, "b": 1}
    assert ranks({"only": same}, highest=True) == {"only": 1}
    constant = {place: dict.fromkeys(range(5), value) for place, value in enumerate([0.0, 0.0, 1.0])}
    # Without any spread there is no test.
    assert set(ranks(constant, highest=True).values()) == {1}
