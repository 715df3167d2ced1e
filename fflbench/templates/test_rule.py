"""Tests of the rule smallest-norms: `pytest` runs them."""

from pathlib import Path

import numpy as np

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("smallest_norms.py")
test_conformance = conformance_test(FILE)


def test_the_largest_update_is_left_out():
    updates = np.array([[1, 0], [0, 1], [9, 9]], np.float32)
    np.testing.assert_allclose(fflbench.aggregate("smallest-norms", updates, f=1), [0.5, 0.5])
