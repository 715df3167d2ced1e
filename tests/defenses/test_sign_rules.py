"""Robust learning rate and sign majority against their references, and those against work by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.federation import Columns, View, chain
from fflbench.references.sign_rules import robust_learning_rate, sign_majority
from tests.defenses.test_rules import close, ties
from tests.strategies import matrices, normal_matrices

ROWS = [[1.0, 1.0, -1.0, 0.0], [2.0, -1.0, -2.0, 0.0], [3.0, 3.0, -3.0, 4.0]]
"""Sums of signs are 3, 1, -3 and 1; means 2, 1, -2 and 4/3; means of absolute values 3/4, 5/4 and 13/4."""


def change_of(name, rows, columns, **parameters):
    view = View(0, np.zeros(columns.count), rows, np.ones(len(rows)), columns, len(rows))
    return chain.defense(name, **parameters).rule.aggregate(view, np.random.default_rng(0))


@given(matrices(n=st.integers(1, 9), d=st.integers(0, 20)) | ties(st.integers(1, 9), st.integers(1, 9)), st.data())
def test_robust_learning_rate_is_its_reference(updates, data):
    theta = data.draw(st.sampled_from([0.0, 1.0, 2.5, 4.0]))
    examples = data.draw(st.lists(st.integers(1, 500), min_size=len(updates), max_size=len(updates)))
    found = aggregate("robust-learning-rate", updates, theta=theta, weights=examples)
    close(found, robust_learning_rate(updates.tolist(), theta, examples)[0], updates)


@given(normal_matrices(st.integers(1, 9), st.integers(1, 20)) | ties(st.integers(1, 9), st.integers(1, 9)), st.data())
def test_sign_majority_is_its_reference(updates, data):
    step = data.draw(st.sampled_from([None, 0.01, 3.0]))
    close(aggregate("sign-majority", updates, step=step), sign_majority(updates.tolist(), step)[0], updates)


def test_robust_learning_rate_by_hand():
    updates = np.array(ROWS, np.float32)
    np.testing.assert_allclose(aggregate("robust-learning-rate", updates, theta=3.0), [2, -1, -2, -4 / 3], rtol=1e-6)
    np.testing.assert_allclose(aggregate("robust-learning-rate", updates, theta=4.0), [-2, -1, 2, -4 / 3], rtol=1e-6)
    np.testing.assert_allclose(
        aggregate("robust-learning-rate", updates, theta=0.0), aggregate("fedavg", updates), rtol=1e-6
    )


def test_sign_majority_by_hand():
    updates = np.array(ROWS, np.float32)
    np.testing.assert_allclose(aggregate("sign-majority", updates), [1.25, 1.25, -1.25, 1.25])
    np.testing.assert_allclose(aggregate("sign-majority", updates, step=0.5), [0.5, 0.5, -0.5, 0.5])
    assert aggregate("sign-majority", updates[:2])[1] == 0


def test_one_huge_update_changes_the_step_of_a_majority_no_more_than_any_other():
    updates = np.random.default_rng(0).normal(size=(7, 50)).astype(np.float32)
    updates[0] = 3e38
    assert np.abs(aggregate("sign-majority", updates)).max() < 2


def test_buffers_are_averaged_or_take_the_median_and_have_no_vote():
    columns = Columns({}, {}, slice(0, 2), slice(0, 2), 4)
    rows = np.array(ROWS, np.float32)
    np.testing.assert_allclose(
        change_of("robust-learning-rate", rows, columns, theta=4.0), [-2, -1, -2, 4 / 3], rtol=1e-6
    )
    # Mean absolute values of the parameters are 1, 1.5 and 3.
    np.testing.assert_allclose(change_of("sign-majority", rows, columns), [1.5, 1.5, -2, 0])
