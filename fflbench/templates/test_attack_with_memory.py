"""Tests of the attack accumulated-reversal: `pytest` runs them."""

from pathlib import Path

import numpy as np

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("accumulated_reversal.py")
test_conformance = conformance_test(FILE)


def test_attackers_send_the_opposite_of_the_sum():
    honest = np.array([[1, 2], [3, 4]], np.float32)
    sent = fflbench.poison("accumulated-reversal", honest, attackers=2, factor=2)
    np.testing.assert_allclose(sent, [[-4, -6], [-4, -6]])
