"""Tests of the attack harmful-direction: `pytest` runs them."""

from pathlib import Path

import numpy as np

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("harmful_direction.py")
test_conformance = conformance_test(FILE)


def test_the_direction_is_the_one_that_harms_this_defense_more():
    honest = np.array([[3, 0], [3, 0], [3, 0.3]], np.float32)
    sent = fflbench.poison("harmful-direction", honest, attackers=2, defense="fedavg")
    mean = honest.mean(0)
    choices = [2 * np.linalg.norm(mean) * row / np.linalg.norm(row) for row in (-mean, -np.sign(mean))]
    harm = [np.linalg.norm(np.vstack([honest, row, row]).mean(0) - mean) for row in choices]
    np.testing.assert_allclose(sent[0], choices[int(np.argmax(harm))], rtol=1e-5)
