"""Tests of the attack high-confidence: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("high_confidence.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["high-confidence"]
defenses = ["fedavg"]
seeds = [0]
[measure]
use = "membership"
rounds_before = 1
"""


def test_members_have_higher_scores(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    (record,) = records
    assert record.metrics["auc"] > 0.5
