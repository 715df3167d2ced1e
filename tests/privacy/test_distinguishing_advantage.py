"""Advantage and bounds on epsilon, against binomial tails and a mechanism whose epsilon is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

from fflbench.privacy.distinguishing_advantage import GuessCounts

DELTA = 1e-5


def upper_bound(errors, trials):
    """Return the rate at which so few errors have a probability of 2.5%, by the binomial distribution itself."""
    if errors == trials:
        return 1.0
    return brentq(lambda rate: binom.cdf(errors, trials, rate) - 0.025, 1e-12, 1 - 1e-12)


@st.composite
def counts(draw):
    positives, negatives = draw(st.integers(1, 300)), draw(st.integers(1, 300))
    return GuessCounts(draw(st.integers(0, positives)), positives, draw(st.integers(0, negatives)), negatives)


@given(counts())
def test_the_bound_follows_from_the_error_rates(found):
    fpr = upper_bound(found.false_positives, found.negatives)
    fnr = upper_bound(found.positives - found.true_positives, found.positives)
    wanted = 0.0
    for one, other in ((fpr, fnr), (fnr, fpr)):
        # The least epsilon with 1 - one <= exp(epsilon) * other + delta.
        if 1 - one - DELTA > other:
            wanted = max(wanted, math.log((1 - one - DELTA) / other))
    assert found.epsilon_lower_bound(DELTA) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    assert found.epsilon_lower_bound(DELTA) <= found.largest_lower_bound(DELTA) + 1e-12


@given(counts())
def test_the_advantage_is_that_of_right_guesses_and_inside_its_interval(found):
    right = found.true_positives + (found.negatives - found.false_positives)
    assert found.advantage == pytest.approx(2 * right / (found.positives + found.negatives) - 1)
    low, high = found.advantage_interval()
    assert -1 <= low <= found.advantage + 1e-12
    assert found.advantage - 1e-12 <= high <= 1


def test_guesses_without_errors_show_as_much_as_their_number_allows():
    perfect = GuessCounts(500, 500, 0, 500)
    assert perfect.advantage == 1
    rate = 1 - 0.025 ** (1 / 500)
    assert perfect.epsilon_lower_bound(DELTA) == pytest.approx(math.log((1 - rate - DELTA) / rate))
    assert perfect.epsilon_lower_bound(DELTA) == pytest.approx(perfect.largest_lower_bound(DELTA))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_randomised_response_is_bounded_below_its_epsilon_in_95_percent_of_audits(epsilon):
    """Warner's mechanism tells the truth with odds exp(epsilon): a tight bound may exceed it in 5% of audits."""
    rng, audits, trials = np.random.default_rng(0), 2000, 400
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    right = rng.binomial(trials, truth, (audits, 2))
    bounds = [GuessCounts(tp, trials, trials - tn, trials).epsilon_lower_bound(0.0) for tp, tn in right.tolist()]
    assert np.mean(np.array(bounds) > epsilon + 1e-12) <= 0.05
    assert np.median(bounds) > 0.6 * epsilon - 1e-12
