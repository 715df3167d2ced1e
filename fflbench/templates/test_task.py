"""Tests of the task two-clouds: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("two_clouds.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["two-clouds"]
attacks = ["none", "label-flipping"]
defenses = ["fedavg", "median"]
seeds = [0]
"""


def test_the_task_can_be_learned(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    assert all(record.metrics["accuracy"] > 0.6 for record in records)
