"""Tests of the engine torch-optimizers: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("torch_optimizers.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none"]
defenses = ["fedavg"]
seeds = [0]
[overrides]
rounds = 5
engine = "torch-optimizers"
"""


def test_a_model_learns(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    (record,) = records
    assert record.metrics["accuracy"] > 0.5
