"""Tests of the pre-aggregation median-norm: `pytest` runs them."""

from pathlib import Path

import numpy as np

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("median_norm.py")
test_conformance = conformance_test(FILE)


def test_all_updates_get_the_median_norm():
    updates = np.array([[2, 0], [0, 1], [0.5, 0]], np.float32)
    np.testing.assert_allclose(fflbench.aggregate("median-norm + fedavg", updates), [2 / 3, 1 / 3], rtol=1e-6)
