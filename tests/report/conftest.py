"""Leaderboards and records that several tests start from."""

import json
import shutil

import pytest

from fflbench.execution.run_suite import run
from fflbench.records import collection, npz_file
from fflbench.records.record import Record
from fflbench.report import leaderboard
from tests.fuzz import fixtures
from tests.report.record_folders import record_content, write_record, write_run_folder
from tests.report.synthetic_records import WHOLE


@pytest.fixture(scope="session")
def boards(tmp_path_factory):
    """A leaderboard with robustness and reconstructions."""
    folder = tmp_path_factory.mktemp("made")
    suite = folder / "small.toml"
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["analytic"]\ndefenses = ["fedavg"]\nseeds = [0]\n'
        '[measure]\nuse = "reconstruction"\nobservation = "submission"\ngroups = 1\n'
    )
    run(str(suite), out=folder / "results", workers=1)
    write_run_folder(folder / "results" / "small", [record.model_copy(update={"suite": "small"}) for record in WHOLE])
    leaderboard.generate(folder / "results" / "small", folder / "boards" / "small")
    return folder / "boards"


@pytest.fixture
def board(boards, tmp_path):
    shutil.copytree(boards, tmp_path / "boards")
    return tmp_path / "boards" / "small"


@pytest.fixture
def entry(board, tmp_path):
    """An entry from outside with one robustness cell and one reconstruction."""
    folder = tmp_path / "entry"
    (folder / "records").mkdir(parents=True)
    (folder / "entry.json").write_text(
        json.dumps({"name": "their-rule", "link": "https://example.org/rule", "citation": "They, 2026."})
    )
    found = collection.read_collection(board)
    attacked = next(record for record in found.records if record.labels.get("attack") == "none")
    rebuilt = next(record for record in found.records if record.configuration["measure"]["name"] == "reconstruction")
    for record in (attacked, rebuilt):
        content = record_content(record)
        content["configuration"]["defense"]["transport"]["name"] = content["labels"]["defense"] = "their-rule"
        write_record(folder / "records", content, npz_file.pack_arrays(found.arrays(record)))
    return folder


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """A leaderboard of real cells."""
    folder = tmp_path_factory.mktemp("real")
    suite = folder / "tiny.toml"
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["label-flipping"]\ndefenses = ["fedavg", "median"]\n'
        "seeds = [0, 1, 2, 3, 4, 5]\n[overrides]\nrounds = 2\n"
    )
    run(str(suite), out=folder / "results", workers=1)
    leaderboard.generate(folder / "results" / "tiny", folder / "boards" / "tiny")
    return folder / "boards" / "tiny"


@pytest.fixture(scope="session")
def samples():
    """Real records of every measure, by measure, without their arrays."""
    by_measure = {}
    for each in fixtures.make_records():
        by_measure.setdefault(each.measure, []).append(Record.parse(each.text).with_arrays(b""))
    return by_measure
