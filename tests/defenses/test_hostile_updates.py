"""Rules on hostile, equal, single and empty updates, and after pre-aggregations."""

import numpy as np
import pytest

from fflbench import Aggregator, aggregate
from fflbench.errors import ParameterError

RULES = (
    "auror",
    "centered-clipping",
    "clipped-clustering",
    "dnc",
    "norm-clipping",
    "robust-learning-rate",
    "sign-majority",
    "signguard",
    "three-sigma",
)
BOUNDED = set(RULES) - {"robust-learning-rate"}
"""Rules that one huge update cannot move far."""


def normal(n=9, d=50, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).normal(size=(n, d)) + 0.5).astype(dtype)


@pytest.mark.parametrize("name", RULES)
class TestEveryRule:
    @pytest.mark.parametrize("value", [1e30, 3.4e38, -3.4e38])
    def test_one_huge_update_gives_finite_numbers(self, name, value):
        updates = normal()
        updates[0] = value
        found = aggregate(name, updates)
        assert np.isfinite(found).all()
        if name in BOUNDED:
            assert np.abs(found).max() < 100

    def test_nothing_but_huge_updates_gives_finite_numbers(self, name):
        for updates in (np.full((5, 3), 3.4e38), np.where(normal(5, 3) > 0, 3e38, -3e38)):
            assert np.isfinite(aggregate(name, updates.astype(np.float32))).all()

    def test_a_single_update_is_its_own_aggregate_but_for_its_sign_and_length(self, name):
        updates = normal(1)
        found = aggregate(name, updates)
        if name == "sign-majority":
            np.testing.assert_array_equal(np.sign(found), np.sign(updates[0]))
        elif name == "robust-learning-rate":
            np.testing.assert_allclose(found, -updates[0], rtol=1e-6)
        else:
            length = min(1, 3 / np.linalg.norm(updates)) if name == "norm-clipping" else 1
            np.testing.assert_allclose(found, updates[0] * length, rtol=1e-5)

    def test_equal_updates_are_their_aggregate_but_for_length(self, name):
        updates = np.tile(normal(1), (7, 1))
        found = aggregate(name, updates).astype(np.float64)
        np.testing.assert_array_equal(np.sign(found), np.sign(updates[0]))
        if name not in ("norm-clipping", "sign-majority"):
            np.testing.assert_allclose(found, updates[0], rtol=1e-5)

    @pytest.mark.parametrize("d", [0, 1])
    def test_no_coordinate_or_one_is_as_good_as_many(self, name, d):
        if (name, d) == ("signguard", 0):
            with pytest.raises(ParameterError, match="no update passed both filters"):
                aggregate(name, normal(9, 0))
            return
        found = aggregate(name, normal(9, d))
        assert found.shape == (d,)
        assert np.isfinite(found).all()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_input_stays_as_it_is_and_output_has_its_type(self, name, dtype):
        updates = normal(dtype=dtype)
        updates.flags.writeable = False
        before = updates.copy()
        assert aggregate(name, updates).dtype == dtype
        np.testing.assert_array_equal(updates, before)

    @pytest.mark.parametrize("before", ["nnm", "bucketing", "clipping", "arc"])
    def test_pre_aggregations_may_come_first(self, name, before):
        aggregator = Aggregator(f"{before} + {name}")
        for seed in range(2):
            assert np.isfinite(aggregator(normal(seed=seed))).all()
