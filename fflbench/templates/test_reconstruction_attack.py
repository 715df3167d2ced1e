"""Tests of the attack hill-climbing: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("hill_climbing.py")
test_conformance = conformance_test(FILE)

SUITE = """
tasks = ["digits-mlp"]
attacks = ["hill-climbing"]
defenses = ["fedavg"]
seeds = [0]
[measure]
use = "reconstruction"
"""


def test_reconstructions_resemble_the_examples(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    (record,) = records
    assert record.metrics["psnr"] > record.metrics["floor_psnr"]
