"""Tests of the attack bright-corner: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("bright_corner.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none", "bright-corner"]
defenses = ["fedavg"]
seeds = [0]
[overrides]
rounds = 8
[attack.bright-corner]
share = 0.3
"""


def test_the_backdoor_works_against_averaging(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    success = {record.labels["attack"]: record.metrics["attack_success_rate"] for record in records}
    assert success["bright-corner"] > success["none"] + 0.3
