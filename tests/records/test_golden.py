"""Results must not change unless a results version says so.

Fingerprints of a few rounds are kept in golden.json, with the versions they were made with, to three digits, which
rounding on another processor does not reach. When one differs, raise the version of what you changed and run:
python -m tests.records.test_golden
"""

import json
from pathlib import Path

import numpy as np
import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.records.manifest import results_versions
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

FILE = Path(__file__).with_name("golden.json")

SUITE = {
    "tasks": ["digits-mlp", "digits-cnn"],
    "attacks": ["none", "gaussian-noise", "label-flipping", "noise-control"],
    "defenses": [
        "fedavg",
        "median",
        "trimmed-mean",
        "krum",
        "multi-krum",
        "foolsgold",
        "ffl",
        "fragment-exchange + median",
    ],
    "seeds": [0],
    "overrides": {"rounds": 2},
}

CELLS = {str(cell): cell for cell in plan(parse(SUITE, "golden", "golden"))}


def run_fingerprint(cell):
    record = run_cell(cell, "golden")
    assert record.status == "done", record.error
    return {
        "versions": results_versions(cell.configuration),
        "losses": [item["test_loss"] for item in record.history],
    }


@pytest.mark.parametrize("name", CELLS)
def test_results_change_only_with_their_version(name):
    kept = json.loads(FILE.read_text())
    assert name in kept, "a new cell: run python -m tests.records.test_golden"
    found = run_fingerprint(CELLS[name])
    assert found["versions"] == kept[name]["versions"], "a new version: run python -m tests.records.test_golden"
    np.testing.assert_allclose(
        found["losses"], kept[name]["losses"], rtol=2e-3, err_msg="results changed, but no results version did"
    )


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: run_fingerprint(cell) for name, cell in CELLS.items()}, indent=1) + "\n")
