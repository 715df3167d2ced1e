"""Tests of the measure update-norm: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("update_norm.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none"]
defenses = ["fedavg", "median"]
seeds = [0]
[measure]
use = "update-norm"
"""


def test_updates_have_a_norm(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    assert all(record.metrics["update_norm"] > 0 for record in records)
