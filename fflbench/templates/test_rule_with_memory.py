"""Tests of the rule server-momentum: `pytest` runs them."""

from pathlib import Path

import numpy as np

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("server_momentum.py")
test_conformance = conformance_test(FILE)


def test_half_of_the_last_aggregate_is_added():
    server_momentum = fflbench.Aggregator("server-momentum", beta=0.5)
    np.testing.assert_allclose(server_momentum(np.array([[2.0, 4.0]])), [2, 4])
    np.testing.assert_allclose(server_momentum(np.array([[1.0, 0.0]])), [2, 2])
