"""FLTrust against its paper, written slowly."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fflbench.federation import Columns, NoAnswerError, View, chain
from tests.strategies import normal_matrices


def fltrust(rows, root):
    """Scale rows to the norm of the root update and average them by trust (algorithm 2); None without trust."""
    length, total, sums = math.hypot(*root), 0.0, [0.0] * len(root)
    for row in rows:
        norm = math.hypot(*row)
        product = math.fsum(a * b for a, b in zip(row, root, strict=True))
        trust = max(0.0, product / (norm * length)) if norm and length else 0.0
        total += trust
        sums = [s + trust * length / norm * value if trust else s for s, value in zip(sums, row, strict=True)]
    return [s / total for s in sums] if total else None


def change_of(rows, root, columns=None):
    columns = columns or Columns.of_length(len(root))
    rule = chain.defense("fltrust").rule
    root = np.asarray(root, np.float32)
    view = View(
        0, np.zeros(len(root)), rows, np.ones(len(rows)), columns, len(rows), np.arange(len(rows)), root_update=root
    )
    change = rule.aggregate(view, np.random.default_rng(0))
    return change, list(rule.report()["row_weights"].values())


@given(normal_matrices(st.integers(2, 9), st.integers(1, 12)))
def test_fltrust_is_its_definition(updates):
    *rows, root = updates.tolist()
    wanted = fltrust(rows, root)
    assume(wanted is not None)
    change, _ = change_of(updates[:-1], root)
    np.testing.assert_allclose(change, wanted, rtol=1e-4, atol=1e-4 * math.hypot(*root))


def test_fltrust_by_hand():
    """Cosines with (2, 0) are 0.6, 0, -1 and 1; scaled to a norm of 2 the trusted are (1.2, 1.6) and (2, 0)."""
    rows = np.array([[3, 4], [0, 7], [-5, 0], [100, 0]], np.float32)
    change, trust = change_of(rows, [2.0, 0.0])
    np.testing.assert_allclose(trust, [0.6, 0, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(change, [(0.6 * 1.2 + 2) / 1.6, 0.6 * 1.6 / 1.6], rtol=1e-6)


def test_the_model_is_kept_where_nobody_is_trusted():
    for rows, root in (([[-1, 0], [0, 1]], [1, 0]), ([[0, 0], [0, 0]], [1, 0]), ([[1, 0], [0, 1]], [0, 0])):
        with pytest.raises(NoAnswerError, match="every update has trust score 0"):
            change_of(np.array(rows, np.float32), root)


def test_fltrust_bounds_every_update_by_the_norm_of_the_root_update():
    rows = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    rows[0] = 3e38
    root = np.ones(6, np.float32)
    change, _ = change_of(rows, root)
    assert np.linalg.norm(change.astype(np.float64)) <= math.sqrt(6) * (1 + 1e-4)


def test_trust_is_decided_by_parameters_and_buffers_follow():
    columns = Columns({}, {}, slice(0, 2), slice(0, 2), 3)
    rows = np.array([[3, 4, 10], [-1, 0, 50]], np.float32)
    change, trust = change_of(rows, [2, 0, 9999], columns)
    np.testing.assert_allclose(trust, [0.6, 0], rtol=1e-6)
    np.testing.assert_allclose(change, [1.2, 1.6, 4], rtol=1e-6)
