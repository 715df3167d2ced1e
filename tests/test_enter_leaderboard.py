"""`fflbench enter`: one command runs all that a leaderboard measures for a new defense, and adds its whole row."""

import json
import shutil
import sys

import pytest

from fflbench import registry
from fflbench.execution.run_suite import run
from fflbench.records import collection, file_replacement, manifest
from fflbench.report import leaderboard
from fflbench.report.table_model import OVERALL, Board
from tests.report.record_folders import (
    folder_content,
    invoke_command,
    record_text_with_digest,
    refusal_message,
    run_fflbench,
)

SUITE = """
title = "Small"
tasks = ["digits-mlp"]
attacks = ["none", "label-flipping", "gaussian-noise"]
defenses = ["fedavg", "median", "ffl", "ideal-secagg"]
seeds = [0, 1]
[overrides]
rounds = 2
[deviation.fragment-exchange]
strategy = [1, 2]
[[also]]
attacks = ["analytic"]
[also.measure]
use = "reconstruction"
observation = ["submission", "unmixed"]
groups = 1
people = 4
[[also]]
attacks = ["analytic"]
defenses = ["ideal-secagg"]
[also.measure]
use = "reconstruction"
observation = "sum"
groups = 1
people = 4
[[also]]
defenses = ["fedavg", "median", "ffl"]
seeds = [0]
[also.measure]
use = "runtime"
repeats = 1
[[also]]
defenses = ["fedavg", "median", "ffl"]
seeds = [0]
[also.measure]
use = "communication"
"""
RULE = '''"""Their rules. They et al., 2026."""
from fflbench.plugin import rule

@rule("their-rule", title="Their rule")
def their_rule(updates, power: int = 1):
    """The plain mean."""
    return updates.mean(0) * power
'''
ANOTHER = '''
@rule("another", title="Another")
def another(updates):
    """The plain mean."""
    return updates.mean(0)
'''
PART = '''"""Their pre-aggregation."""
import numpy as np
from fflbench.plugin import preaggregation

@preaggregation("their-part", title="Their part")
def their_part(updates):
    """All rows as they are."""
    return np.eye(len(updates), dtype=np.float32)
'''
CHAIN = """
from fflbench.plugin import chain
chain("their-chain", "nnm + their-rule", title="Their chain")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Leaderboards of another machine, in their folder."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "small.toml").write_text(SUITE)
    run(str(folder / "small.toml"), out=folder / "results", workers=1)
    for file in (folder / "results" / "small").glob("*.json"):
        content = json.loads(file.read_text())
        content["manifest"]["processor"] = "Another 1"
        file.write_text(record_text_with_digest(content))
    leaderboard.generate(folder / "results" / "small", folder / "leaderboards" / "small")
    return folder / "leaderboards"


@pytest.fixture
def place(made, own_registry, tmp_path, monkeypatch):
    """A folder with the leaderboard, which another processor made."""
    shutil.copytree(made, tmp_path / "leaderboards")
    (tmp_path / "their_rule.py").write_text(RULE)
    monkeypatch.chdir(tmp_path)
    # Folders are compared, and Python's caches of plugins are no trace of ours.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def enter(*arguments):
    return invoke_command("enter", *arguments, "--board", "small", "--workers", 1)


def joined_table(place):
    board = Board.model_validate_json((place / "leaderboards/small/tables/leaderboard.json").read_bytes())
    (table,) = [table for table in board.tables if table.section == OVERALL]
    return table


def joined_rows(place):
    table = joined_table(place)
    return {
        row.defense: [cell.display_text(column) for cell, column in zip(row.cells, table.columns, strict=True)]
        for row in table.rows
    }


def test_a_rule_gets_a_complete_row_of_every_measure_from_one_command(place):
    done = run_fflbench("enter", "their_rule.py", "--board", "small", "--link", "https://example.org/x", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "their-rule" in done.stdout
    assert "ideal-secagg" not in done.stdout
    rows = joined_rows(place)
    assert all(rows["their-rule"])
    assert "incomplete" not in "".join(rows["their-rule"])
    # Reconstructions and bytes depend on the transport alone.
    assert rows["their-rule"][4:6] == rows["fedavg"][4:6]
    # Its times are of this machine, and the others' are not.
    table = joined_table(place)
    assert set(table.other_processors) == {manifest.processor_name()}
    (row,) = [row for row in table.rows if row.defense == "their-rule"]
    marked = [column.title for cell, column in zip(row.cells, table.columns, strict=True) if cell.other_processor]
    assert marked == ["server, s", "participant, s", "peak memory, MB"]
    # Nobody needs the plugin to make the leaderboard again, and whoever has it can run its cells again.
    assert run_fflbench("leaderboard", "leaderboards/small", "--check", cwd=place).returncode == 0
    verified = run_fflbench("verify", "leaderboards/small", "--plugin", "their_rule.py", "--sample", 1, cwd=place)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "their-rule" in verified.stdout
    entry = json.loads((place / "leaderboards/small/entries/their-rule/entry.json").read_text())
    assert entry["link"] == "https://example.org/x"
    assert entry["citation"] == "Their rules. They et al., 2026."
    taken = run_fflbench("enter", "their_rule.py", "--board", "leaderboards/small", cwd=place)
    assert "remove it to enter anew, or choose another --name" in refusal_message(taken)


def test_only_what_is_missing_runs_again_and_shared_cells_never_do(place):
    assert "8 cells, 0 done already, 8 to run" in enter("their_rule.py", "--dry-run").stderr
    assert not (place / "results").exists()
    first = enter("their_rule.py")
    assert first.exit_code == 0, first.stderr
    assert "8 cells, 0 done already, 8 to run" in first.stderr
    assert "2 cells shared" in first.stderr
    shutil.rmtree(place / "leaderboards/small/entries")
    again = enter("their_rule.py")
    assert again.exit_code == 0, again.stderr
    assert "8 cells, 8 done already, 0 to run" in again.stderr
    assert "their-rule" in joined_rows(place)


def test_a_transport_that_is_new_to_the_leaderboard_gets_reconstructions_of_its_own(place):
    (place / "part.py").write_text(PART)
    done = enter("part.py", "--defense", "ldp + their-part + median", "--name", "theirs")
    assert done.exit_code == 0, done.stderr
    found = collection.read_collection(place / "leaderboards" / "small")
    own = [record for record in found.displayed_records if "theirs" in collection.defense_labels(record)]
    assert {record.measure for record in own} == {"robustness", "reconstruction", "runtime", "communication"}
    assert {record.id for record in own} <= set(found.reported)
    assert all(joined_rows(place)["theirs"])
    assert not found.problems


def test_a_chain_of_its_own_name_and_parameters_can_be_entered(place):
    (place / "both.py").write_text(RULE + CHAIN)
    done = enter("both.py", "--set", "power=0")
    assert done.exit_code == 0, done.stderr
    records = collection.read_collection(place / "leaderboards" / "small").records
    (timed,) = [
        record for record in records if record.measure == "runtime" and record.labels["defense"] == "their-chain"
    ]
    assert timed.configuration["defense"]["rule"]["parameters"] == {"power": 0}
    assert timed.configuration["defense"]["preaggregations"][0]["name"] == "nnm"
    # The registry is as it was.
    assert registry.find(registry.Kind.DEFENSE, "their-chain")


def test_a_leaderboard_that_cannot_be_written_loses_nothing(place, monkeypatch):
    before = folder_content(place / "leaderboards")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(leaderboard, "replace_files", fails)
    done = enter("their_rule.py")
    assert "No space left on device" in str(done.exception)
    assert "the entry is kept: fflbench leaderboard leaderboards/small --add results/enter-small-their-rule/entry" in (
        str(done.exception)
    )
    assert folder_content(place / "leaderboards") == before
    monkeypatch.setattr(leaderboard, "replace_files", file_replacement.replace_files)
    added = run_fflbench(
        "leaderboard", "leaderboards/small", "--add", "results/enter-small-their-rule/entry", cwd=place
    )
    assert added.returncode == 0, added.stderr
    assert all(joined_rows(place)["their-rule"])


def test_a_defense_that_fails_is_not_added(place):
    (place / "fails.py").write_text(RULE.replace("updates.mean(0)", "updates.mean(0)[:3]"))
    before = folder_content(place / "leaderboards")
    done = enter("fails.py")
    assert done.exit_code == 1
    assert "nothing was added" in done.stderr
    assert folder_content(place / "leaderboards") == before


REFUSED = {
    "no leaderboard": (RULE, ["--board", "nowhere"], "there is no leaderboard"),
    "no file": (None, [], "there is no such file"),
    "no Python file": (RULE, ["their_rule"], "is no Python file"),
    "no defense": ("import numpy", [], "registers no defense"),
    "two defenses": (RULE + ANOTHER, [], "name the one to enter"),
    "a part": (PART, [], '--defense "their-part + median"'),
    "a chain without it": (RULE, ["--defense", "nnm + median"], "uses nothing that"),
    "an unknown chain": (RULE, ["--defense", "their-rul"], 'did you mean "their-rule"'),
    "a taken name": (RULE, ["--name", "median"], 'has a row "median" already'),
    "a name for no file": (RULE, ["--name", "../x"], "--name takes"),
    "a link that is none": (RULE, ["--link", "javascript:1"], "--link an address"),
    "an unknown parameter": (RULE, ["--set", "powr=2"], 'did you mean "power"'),
    "a list of values": (RULE, ["--set", "power=[1, 2]"], "one value of each parameter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_entered_is_refused_in_one_sentence(place, case):
    source, options, sentence = REFUSED[case]
    if source is not None:
        (place / "new.py").write_text(source)
    before = folder_content(place)
    file = options.pop(0) if options and not options[0].startswith("-") else "new.py"
    done = invoke_command("enter", file, *(["--board", "small"] if "--board" not in options else []), *options)
    assert isinstance(done.exception, registry.NotRegisteredError.__base__), done.output
    assert sentence in str(done.exception)
    assert "\n" not in str(done.exception)
    assert folder_content(place) == before


def test_a_defense_that_is_there_under_another_name_is_refused(place):
    (place / "same.py").write_text(
        '"""FedAvg again."""\nfrom fflbench.plugin import chain\nchain("mean", "plain + fedavg", title="Mean")\n'
    )
    assert 'has this defense already, as "fedavg"' in str(enter("same.py").exception)
