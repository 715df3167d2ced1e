"""Tests of the observation largest-submission: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("largest_submission.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["analytic"]
defenses = ["fedavg"]
seeds = [0]
[measure]
use = "reconstruction"
observation = "largest-submission"
"""


def test_an_observed_update_reveals_its_examples(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    (record,) = records
    assert record.metrics["psnr"] > 60
