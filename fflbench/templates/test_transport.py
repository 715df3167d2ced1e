"""Tests of the transport half-precision: `pytest` runs them."""

from pathlib import Path

import numpy as np

from fflbench.conformance import conformance_test
from fflbench.federation.chain import defense
from fflbench.plugin import Columns, Setting

FILE = Path(__file__).with_name("half_precision.py")
test_conformance = conformance_test(FILE)


def test_the_server_sees_numbers_of_half_precision():
    chain = defense("half-precision + fedavg")
    chain.begin(Setting(participants=2, per_round=2, sizes=np.ones(2, np.int64), columns=Columns.of_length(2)), seed=0)
    updates = np.array([[1 / 3, 1], [0, 1e-9]], np.float32)
    transcript = chain.transmit(0, np.zeros(2, np.float32), np.arange(2), updates.copy())
    np.testing.assert_array_equal(transcript.server.rows, updates.astype(np.float16))
