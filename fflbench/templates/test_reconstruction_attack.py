"""Tests of the attack best-guess: `pytest` runs them."""

from pathlib import Path

import fflbench
from fflbench.conformance import conformance_test

FILE = Path(__file__).with_name("best_guess.py")
test_conformance = conformance_test(FILE)


SUITE = """
tasks = ["digits-mlp"]
attacks = ["best-guess"]
defenses = ["fedavg"]
seeds = [0]
[measure]
use = "reconstruction"
"""


def test_guesses_resemble_the_examples_no_less_than_random_images(tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    records = fflbench.run(tmp_path / "suite.toml", tmp_path, plugins=[str(FILE)], workers=1)
    (record,) = records
    assert record.metrics["psnr"] > record.metrics["psnr_floor"] - 1
