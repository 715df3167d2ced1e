"""A measure with metrics of its own, in one file: everything downstream follows from its declaration."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

PLUGIN = Path(__file__).parent / "own_measure.py"
SUITE = """
title = "Own measure"
tasks = ["digits-mlp"]
defenses = ["fedavg", "median"]
seeds = [0, 1]

[measure]
use = "update-norm"
scale = [10.0, 1.0, 2.0]
"""
SCALES = (1.0, 2.0, 10.0)
TITLES = ("length of the aggregate, m", "short updates %")
MEANINGS = (
    "Euclidean length of what the server adds to the model.",
    "Share of the updates that are shorter than the mean of all.",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def run_fflbench(folder):
    def command(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "fflbench", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "160"},
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    return command


@pytest.fixture(scope="module")
def run_output(folder, run_fflbench):
    """Output of the run."""
    (folder / "own.toml").write_text(SUITE)
    return run_fflbench("run", "own.toml", "--plugin", str(PLUGIN), "--workers", "1", "--tables", "all")


@pytest.fixture(scope="module")
def leaderboard_folder(folder, run_fflbench, run_output):
    """A leaderboard of it."""
    run_fflbench("leaderboard", "results/own", "--plugin", str(PLUGIN))
    return folder / "leaderboards" / "own"


def drawn_updates(seed, scale):
    """The updates of a cell, as its measure draws them."""
    return np.random.default_rng(seed).normal(scale=scale, size=(8, 2410)).astype(np.float32)


def expected_aggregate_norms(defense, scale):
    """Length of the mean or the median of the updates of each seed."""
    middle = {"fedavg": np.mean, "median": np.median}[defense]
    return [float(np.linalg.norm(middle(drawn_updates(seed, scale), axis=0))) for seed in (0, 1)]


def test_the_terminal_has_its_metrics_by_their_titles(run_output):
    for title in TITLES:
        assert title in " ".join(run_output.split())
    (line, _) = (
        line
        for line in run_output.splitlines()
        if line.split()[:1] == ["median"] and line.count("±") == 3 and "p" not in line
    )
    means = [float(part) for part in line.replace("±", "").split()[1::2]]
    assert means == pytest.approx([np.mean(expected_aggregate_norms("median", scale)) for scale in SCALES], abs=6e-4)


def test_markdown_has_its_tables_with_what_metrics_mean(folder, run_output, leaderboard_folder):
    for page in ((folder / "results/own/tables.md").read_text(), (leaderboard_folder / "README.md").read_text()):
        assert page.startswith("# Own measure\n")
        for title in TITLES:
            assert title in page
        assert "scale = 1 | scale = 2 | scale = 10 |" in page
        assert MEANINGS[0] in page
    assert all(meaning in (leaderboard_folder / "README.md").read_text() for meaning in MEANINGS)


def test_csv_has_its_figures_with_the_intervals_of_scipy(leaderboard_folder):
    lines = list(
        csv.DictReader(
            io.StringIO((leaderboard_folder / "tables/sweep-digits-mlp-update-norm-gradient_norm.csv").read_text())
        )
    )
    assert [(line["row"], line["column"]) for line in lines] == [
        (name, f"scale-{scale:g}") for name in ("fedavg", "median") for scale in SCALES
    ]
    for line, (defense, scale) in zip(lines, [(n, s) for n in ("fedavg", "median") for s in SCALES], strict=True):
        values = expected_aggregate_norms(defense, scale)
        _, high = stats.t.interval(0.95, 1, np.mean(values), stats.sem(values))
        assert float(line["mean"]) == pytest.approx(np.mean(values), rel=1e-4)
        assert float(line["high_95"]) - float(line["mean"]) == pytest.approx(high - np.mean(values), rel=1e-2)


def test_a_share_of_trials_is_pooled_over_seeds(leaderboard_folder):
    lines = csv.DictReader(
        io.StringIO((leaderboard_folder / "tables/sweep-digits-mlp-update-norm-short_updates.csv").read_text())
    )
    norms = [np.linalg.norm(drawn_updates(seed, 1.0), axis=1) for seed in (0, 1)]
    short = sum(int((of < of.mean()).sum()) for of in norms)
    wanted = stats.binomtest(short, 16).proportion_ci(0.95, method="exact")
    first = next(lines)
    found = [float(first[name]) for name in ("mean", "low_95", "high_95")]
    assert found == pytest.approx([short / 16, wanted.low, wanted.high])


def test_latex_and_json_have_it(leaderboard_folder):
    tex = (leaderboard_folder / "tables/sweep-digits-mlp-update-norm-gradient_norm.tex").read_text()
    assert "length of the aggregate, m by scale" in tex
    assert "scale = 10" in tex
    assert "\\bottomrule" in tex
    content = json.loads((leaderboard_folder / "tables/leaderboard.json").read_text())
    columns = {column["name"]: column for each in content["tables"] for column in each["columns"]}
    for name, title, meaning in zip(("gradient_norm", "short_updates"), TITLES, MEANINGS, strict=True):
        assert (columns[name]["title"], columns[name]["meaning"]) == (title, meaning)
    assert "Norms" in {each["section"] for each in content["tables"]}


def test_its_sweep_and_its_curve_are_drawn(folder, run_output, leaderboard_folder):
    for place in (folder / "results/own", leaderboard_folder / "figures"):
        names = {file.name for file in place.glob("*.svg")}
        assert "sweep-digits-mlp-update-norm-scale.svg" in names
        assert any(name.startswith("norms-") for name in names)
    lines = csv.DictReader(
        io.StringIO((leaderboard_folder / "figures/sweep-digits-mlp-update-norm-scale.csv").read_text())
    )
    found = {(line["metric"], line["row"], float(line["scale"])): float(line["mean"]) for line in lines}
    assert found["gradient_norm", "fedavg", 2.0] == pytest.approx(
        np.mean(expected_aggregate_norms("fedavg", 2.0)), rel=1e-4
    )
    assert (
        b"length of the aggregate, m"
        in (leaderboard_folder / "figures/sweep-digits-mlp-update-norm-scale.svg").read_bytes()
    )


def test_one_setting_alone_is_drawn_too(folder, run_fflbench, run_output):
    (folder / "one.toml").write_text(SUITE.replace("[10.0, 1.0, 2.0]", "2.0"))
    run_fflbench("run", "one.toml", "--plugin", str(PLUGIN), "--workers", "1")
    (file,) = (folder / "results/one").glob("dots-*.csv")
    assert {line["metric"] for line in csv.DictReader(io.StringIO(file.read_text()))} == {
        "gradient_norm",
        "short_updates",
    }


def test_the_page_has_it(leaderboard_folder):
    page = (leaderboard_folder / "index.html").read_text()
    assert all(text in page for text in (*TITLES, *MEANINGS))
    assert '<section id="norms"' in page


def test_a_record_is_shown_and_drawn(folder, run_fflbench, run_output):
    record = min((folder / "results/own").glob("*.json"))
    text = run_fflbench("show", str(record), "--plugin", str(PLUGIN), "--plot", "picture.svg")
    assert "gradient_norm: " in text
    assert "length of each update" in text
    assert b"<!-- norm -->" in (folder / "picture.svg").read_bytes()


def test_verify_finds_the_same_bits(leaderboard_folder, run_fflbench):
    text = run_fflbench("verify", str(leaderboard_folder), "--sample", "2", "--plugin", str(PLUGIN))
    assert text.count("same bits") >= 2


@pytest.mark.parametrize(("moved", "verdict", "code"), [(5e-4, "reproduced", 0), (5.0, "different", 1)])
def test_verify_lets_figures_move_between_processors_as_far_as_declared(
    folder, run_fflbench, run_output, moved, verdict, code
):
    source = folder / f"elsewhere-{code}"
    source.mkdir()
    for file in (folder / "results/own").glob("*.json"):
        content = json.loads(file.read_text())
        del content["digest"]
        content["manifest"]["processor"] = "another"
        content["metrics"]["gradient_norm"] += moved
        (source / file.name).write_text(json.dumps(content))
    run_fflbench("leaderboard", source.name, "--out", f"boards-{code}/own", "--plugin", str(PLUGIN))
    text = run_fflbench("verify", f"boards-{code}/own", "--sample", "1", "--plugin", str(PLUGIN), code=code)
    assert verdict in text
    assert "gradient_norm was" in text
