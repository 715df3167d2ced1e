"""Cost suites as a user runs them."""

import json

SUITE = """
title = "Own costs"
tasks = ["digits-mlp"]
defenses = ["fedavg", "median", "ffl"]
seeds = [0]

[measure]
use = "runtime"
updates = [4, 6]
repeats = 2

[defense.ffl]
mode = "full"
"""


def test_a_cost_suite_runs_is_kept_shown_and_run_again(fflbench):
    (fflbench.folder / "costs.toml").write_text(SUITE)
    _, err = fflbench("run", "costs.toml", "--dry-run")
    assert "6 cells, 0 done already, 6 to run" in err
    assert "take about" in err
    out, err = fflbench("run", "costs.toml", "--workers", "2", "--tables", "all")
    for title in ("digits-mlp, runtime (updates = 4)", "digits-mlp, runtime (updates = 6)", "server, s by updates"):
        assert title in out
    assert "[6/6]" in err
    folder = fflbench.folder / "results/costs"
    assert (folder / "tables.md").read_text().startswith("# Own costs\n")
    assert (folder / "tables.csv").read_text().startswith("table,row,defense,column,mean")
    again, err = fflbench("run", "costs.toml", "--tables", "all")
    assert again == out
    assert "6 cells, 6 done already, 0 to run" in err
    record = next(file for file in folder.glob("*.json") if json.loads(file.read_text())["labels"]["defense"] == "ffl")
    shown, _ = fflbench("show", str(record))
    assert "measure: runtime" in shown
    assert "decryption_seconds" in shown
    assert "accuracy over rounds" not in shown
    _, err = fflbench("show", str(record), "--plot", "picture.png", code=2)
    assert "holds no curve to draw" in err
    before = json.loads(record.read_text())
    fflbench("run", str(record), "--force")
    assert json.loads(record.read_text())["metrics"] != before["metrics"]


def test_what_cannot_fit_is_told_first_and_the_rest_runs(fflbench):
    (fflbench.folder / "costs.toml").write_text(SUITE)
    out, err = fflbench("run", "costs.toml", "--memory-limit", "1kB", code=1)
    assert err.count("needs more memory than there is") >= 6
    assert "6 cells failed: digits-mlp · runtime (updates = 4) · fedavg · seed 0: needs more memory" in out
    _, err = fflbench("run", "costs.toml", "--memory-limit", "lots", code=2)
    assert '"lots" is not a memory size such as 16GB' in err
    _, err = fflbench("run", "costs.toml", "--memory-limit", "8GB")
    assert "6 cells, 0 done already, 6 to run" in err
