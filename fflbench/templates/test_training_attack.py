"""Tests of the attack bounded-ascent: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("bounded_ascent.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none", "bounded-ascent"]
defenses = ["fedavg"]
seeds = [0]
[overrides]
rounds = 8
[attack.bounded-ascent]
share = 0.4
"""


def test_the_model_learns_less(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    accuracy = {record.labels["attack"]: record.metrics["accuracy"] for record in records}
    assert accuracy["bounded-ascent"] < accuracy["none"]
