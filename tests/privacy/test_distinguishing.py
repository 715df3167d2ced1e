"""Tests between two candidates, against the likelihood ratios that they stand for."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from fflbench.federation import Columns, View
from fflbench.privacy.distinguishing import (
    TESTS,
    CandidatePair,
    OtherUpdates,
    score_nearest_row,
    score_own_row,
    score_sum,
    score_values,
)

SIZES = st.tuples(st.integers(1, 6), st.integers(1, 12), st.integers(0, 999))
NOTHING = OtherUpdates()


def drawn(n, d, seed):
    """Return random rows, two candidates of participant 0, and the generator."""
    rng = np.random.default_rng(seed)
    rows, first, second = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, d), d, d))
    return rows, CandidatePair(0, 3, first, second), rng


def view_of(rows, weights=None, scale=1.0):
    n, d = rows.shape
    weights = np.ones(n) if weights is None else weights
    model = np.zeros(d, np.float32)
    return View(0, model, rows, weights, Columns.of_length(d), n, participants=np.arange(n), scale=scale)


def exchanged(pair):
    return replace(pair, first=pair.second, second=pair.first)


@given(SIZES)
def test_of_an_own_row_the_score_is_the_ratio_of_normal_likelihoods(sizes):
    rows, pair, _ = drawn(*sizes)
    first, second = (norm.logpdf(rows[0], candidate).sum() for candidate in (pair.first, pair.second))
    assert score_own_row(view_of(rows), pair, NOTHING) == pytest.approx(first - second, rel=1e-4, abs=1e-4)


@given(SIZES)
def test_of_mixed_rows_the_score_counts_columns_with_the_nearer_value(sizes):
    rows, pair, rng = drawn(*sizes)
    place = rng.integers(len(rows), size=rows.shape[1])
    rows[place, np.arange(rows.shape[1])] = np.where(rng.random(rows.shape[1]) < 0.5, pair.first, pair.second)
    points = 0
    for column, one, other in zip(rows.T, pair.first, pair.second, strict=True):
        nearest = [min(abs(float(value) - float(each)) for value in column) for each in (one, other)]
        points += (nearest[0] < nearest[1]) - (nearest[1] < nearest[0])
    assert score_values(view_of(rows), pair, NOTHING) == points


@given(SIZES)
def test_of_rows_without_senders_the_nearest_decides(sizes):
    rows, pair, _ = drawn(*sizes)
    wide = rows.astype(np.float64)
    first, second = (((wide - candidate) ** 2).sum(1).min() for candidate in (pair.first, pair.second))
    assert score_nearest_row(view_of(rows), pair, NOTHING) == pytest.approx(second - first, rel=1e-6, abs=1e-6)


@given(SIZES, st.integers(2, 5), st.sampled_from([1.0, 0.5]))
def test_of_a_sum_the_score_is_the_ratio_of_normal_likelihoods_of_the_rest(sizes, alike, scale):
    rows, pair, rng = drawn(*sizes)
    updates = rng.standard_normal((alike, rows.shape[1])).astype(np.float32)
    weight, d = 11, rows.shape[1]
    spread = updates - updates.mean(0, dtype=np.float64)
    empirical = spread.T @ spread
    covariance = empirical.trace() / d * np.eye(d) + empirical
    rest = [
        rows[0].astype(np.float64) * scale * weight - pair.size * candidate.astype(np.float64)
        for candidate in (pair.first, pair.second)
    ]
    expected = (weight - pair.size) * updates.mean(0, dtype=np.float64)
    first, second = (multivariate_normal.logpdf(each, expected, covariance) for each in rest)
    found = score_sum(view_of(rows[:1], np.array([weight]), scale), pair, OtherUpdates(alike=updates))
    # The score has the covariance over its average variance, and half of the ratio's scale.
    factor = pair.size / (empirical.trace() / d)
    assert found * factor == pytest.approx(first - second, rel=1e-3, abs=1e-3)


@given(SIZES)
def test_a_sum_of_known_others_is_decided_exactly(sizes):
    n, d, seed = sizes
    rows, pair, rng = drawn(n, d, seed)
    weights = rng.integers(1, 9, n).astype(np.float64)
    others, total = weights @ rows.astype(np.float64), weights.sum() + pair.size
    for candidate, sign in ((pair.first, 1), (pair.second, -1)):
        mean = ((others + pair.size * candidate.astype(np.float64)) / total).astype(np.float32)
        score = score_sum(view_of(mean[None], np.array([total])), pair, OtherUpdates(total=others))
        assert np.sign(score) == sign


@pytest.mark.parametrize(("name", "test"), TESTS.items())
@given(sizes=SIZES)
def test_no_test_prefers_a_candidate_for_its_place(name, test, sizes):
    rows, pair, rng = drawn(*sizes)
    others = OtherUpdates(alike=rng.standard_normal((3, rows.shape[1])).astype(np.float32))
    view = view_of(rows[:1] if name == "sum" else rows)
    assert test(view, pair, others) == pytest.approx(-test(view, exchanged(pair), others), abs=1e-9)
    same = replace(pair, second=pair.first)
    assert test(view, same, others) == 0


@pytest.mark.parametrize("test", TESTS.values())
def test_without_rows_no_candidate_is_preferred(test):
    _, pair, _ = drawn(1, 4, 0)
    assert test(view_of(np.empty((0, 4), np.float32)), pair, OtherUpdates(total=np.zeros(4))) == 0


def test_a_value_that_occurs_anywhere_in_its_column_is_found():
    """All permutations of all columns: where a value stands makes no difference."""
    rows, pair, _ = drawn(3, 2, 5)
    rows[1] = pair.first
    scores = {
        score_values(view_of(np.stack([rows[list(one), 0], rows[list(other), 1]], 1)), pair, NOTHING)
        for one, other in itertools.product(itertools.permutations(range(3)), repeat=2)
    }
    assert scores == {2.0}
