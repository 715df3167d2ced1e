"""Bad input of every kind ends in one sentence and exit code 2, or in cells that failed with a reason."""

import json
import os
import re

import pytest

from fflbench.cli import main
from fflbench.execution import run_status
from tests.execution.conftest import SUITE

GOOD = {"suite": "own", "command": "fflbench run own", "host": "here", "process": 1, "cells": 3, "before": 0}
FAILED = {"cell": "a", "name": "b", "reason": "c", "command": "d"}

BAD_STATUS = {
    "cut off": b'{"suite": ',
    "nothing": b"",
    "deeply nested": b"[" * 200_000,
    "deeply nested objects": b'{"a":' * 200_000,
    "no text": b"\xff\xfe",
    "another type": b"[]",
    "a surrogate": json.dumps(GOOD | {"host": "\ud800"}).encode(),
    "no number": json.dumps(GOOD | {"seconds": float("nan")}).encode(),
    "an endless number": json.dumps(GOOD | {"left": float("inf")}).encode(),
    "a vast number": json.dumps(GOOD | {"cells": 10**400}).encode(),
    "a vast number of seconds": json.dumps(GOOD | {"done": 10**400, "seconds": 1.0}).encode(),
    "more digits than Python reads": b'{"cells": ' + b"9" * 5000 + b"}",
    "a strange key": json.dumps(GOOD | {"more": 1}).encode(),
    "failures of another type": json.dumps(GOOD | {"failed": [FAILED | {"reason": 5}]}).encode(),
}


@pytest.fixture
def refusal_of(capsys, monkeypatch, tmp_path):
    """Return a function that runs the command on bad input, in a folder with a suite, and returns its error message."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(SUITE.format(rounds=1))
    (tmp_path / "own").mkdir()

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, "")
        return err

    return run


@pytest.mark.parametrize("what", BAD_STATUS)
def test_a_damaged_status_file_is_one_sentence(refusal_of, tmp_path, what):
    (tmp_path / "own" / run_status.FILE).write_bytes(BAD_STATUS[what])
    for options in ((), ("--json",)):
        message = refusal_of("status", "own", *options)
        assert message == "fflbench: own/.run is damaged; the next run in that folder replaces it\n"


def test_a_status_file_that_is_none_is_one_sentence(refusal_of, tmp_path):
    place = tmp_path / "own" / run_status.FILE
    place.mkdir()
    assert refusal_of("status", "own") == "fflbench: own/.run is a folder, not a file\n"
    place.rmdir()
    os.mkfifo(place)
    assert refusal_of("status", "own") == "fflbench: own/.run is a named pipe, not a file\n"
    place.unlink()
    place.symlink_to("nowhere")
    assert refusal_of("status", "own") == "fflbench: own holds no run and no record\n"
    place.unlink()
    with place.open("wb") as sparse:
        sparse.truncate(2**40)
    assert "own/.run is larger than 67,108,864 bytes" in refusal_of("status", "own")


def test_a_run_makes_a_damaged_status_file_anew(fflbench):
    (fflbench.folder / "results/own").mkdir(parents=True)
    (fflbench.folder / "results/own" / run_status.FILE).write_bytes(b"[" * 200_000)
    fflbench("run", "own.toml", "--set", 'defenses=["median"]', "--set", 'attacks=["none"]', "--seeds", "0")
    assert fflbench.status().state == "finished"


@pytest.mark.parametrize("ending", [".json", ".npz", ".checkpoint.npz"])
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_folder_where_a_record_should_be_is_named(fflbench, ending, options):
    small = ("run", "own.toml", "--set", 'defenses=["median"]', "--set", 'attacks=["none"]', "--seeds", "0")
    out, _ = fflbench(*small, "--dry-run")
    place = fflbench.folder / "results/own" / f"{out.split()[0]}{ending}"
    place.mkdir(parents=True)
    _, err = fflbench(*small, *options, code=2)
    path = place.relative_to(fflbench.folder)
    assert err.splitlines()[-1] == f"fflbench: {path} is a folder where a file of a record should be; move it away"


def test_a_folder_given_as_a_record_is_named(fflbench):
    (fflbench.folder / "results/own/0123456789abcdef.json").mkdir(parents=True)
    for command in ("run", "show"):
        _, err = fflbench(command, "results/own/0123456789abcdef.json", code=2)
        assert re.fullmatch(r"fflbench: results/own/0123456789abcdef\.json .*\n", err)


LEAVING = '''
"""Plugins that leave or fail wherever they are asked."""
import sys
from fflbench.federation import Attack, Rule
from fflbench.registration import attack, rule, task
from fflbench.tasks import Task
from fflbench.data.digits import load

class Odd(Exception):
    """Has no text."""
    def __str__(self):
        raise RuntimeError

@rule("leaves", title="Leaves")
def leaves(updates):
    """Leaves in a round."""
    sys.exit("enough is enough")

@rule("leaves-well", title="Leaves well")
def leaves_well(updates):
    """Leaves in a round, as if all were well."""
    sys.exit(0)

@rule("odd", title="Odd")
def odd(updates):
    """Raises what has no text."""
    raise Odd

@attack("leaving", title="Leaving", knows=["own data"])
class Leaving(Attack):
    """Leaves as an attacker."""
    def poison_updates(self, known):
        sys.exit(3)

@rule("validates", title="Validates")
class Validates(Rule):
    """Fails when it is asked whether it can work."""
    how: str = "raise"
    def validate(self, *counts):
        if self.how == "exit":
            sys.exit("not here")
        raise KeyError("not here")

@rule("post", title="Post")
class Post(Rule):
    """Leaves when it is made."""
    def __post_init__(self):
        sys.exit("not now")

@task("no-data", title="No data")
class NoData(Task):
    """Leaves when it is asked for data."""
    classes = tuple("0123456789")
    def data(self):
        sys.exit("no data")
    def model(self):
        sys.exit("no model")

@attack("miscounts", title="Miscounts", knows=[])
class Miscounts(Attack):
    """Cannot count."""
    def count(self, participants):
        raise ArithmeticError("one, two, many")

@attack("counts-in-words", title="Counts in words", knows=[])
class CountsInWords(Attack):
    """Counts, but not in numbers."""
    def count(self, participants):
        return "many"
'''


@pytest.fixture
def leaving(fflbench):
    (fflbench.folder / "leaving.py").write_text(LEAVING)

    def run(code, *settings, options=()):
        set_options = [part for setting in settings for part in ("--set", setting)]
        return fflbench("run", "own.toml", "--plugin", "leaving.py", "--seeds", "0", *set_options, *options, code=code)

    run.fflbench = fflbench
    return run


def test_a_cell_whose_code_leaves_fails_with_a_reason_and_the_rest_goes_on(leaving):
    _, err = leaving(1, 'defenses=["leaves", "leaves-well", "odd", "median"]', 'attacks=["none", "leaving"]')
    reasons = {str(record): record.reason for record in leaving.fflbench.records().values()}
    assert reasons["digits-mlp · robustness · none · leaves · seed 0"] == "SystemExit: enough is enough"
    assert reasons["digits-mlp · robustness · none · leaves-well · seed 0"] == "SystemExit: 0"
    assert reasons["digits-mlp · robustness · none · odd · seed 0"] == "Odd"
    assert reasons["digits-mlp · robustness · leaving · median · seed 0"] == "SystemExit: 3"
    assert [record.status for record in leaving.fflbench.records().values()].count("done") == 1
    assert "failed: digits-mlp · robustness · none · leaves · seed 0: SystemExit: enough is enough" in err


def test_a_task_whose_code_leaves_fails_its_own_cells_only(leaving):
    leaving(1, 'tasks=["no-data", "digits-mlp"]', 'defenses=["median"]', 'attacks=["none"]')
    statuses = {record.labels["task"]: record for record in leaving.fflbench.records().values()}
    assert statuses["digits-mlp"].status == "done"
    assert statuses["no-data"].reason == "SystemExit: no data"
    leaving(0, 'tasks=["no-data"]', 'defenses=["median"]', 'attacks=["none"]', options=["--dry-run", "--force"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ['defenses=["validates"]'],
            "[defense.validates] under none: planning it failed: KeyError: 'not here'",
        ),
        (
            ['defenses=["validates"]', "defense.validates.how=exit"],
            "[defense.validates] under none: planning it failed: SystemExit: not here",
        ),
        (['defenses=["post"]'], 'defenses: rule "post": SystemExit: not now'),
        (
            ['attacks=["miscounts"]'],
            "[defense.fedavg] under miscounts: planning it failed: ArithmeticError: one, two, many",
        ),
        (
            ['attacks=["counts-in-words"]'],
            "[defense.fedavg] under counts-in-words: planning it failed: TypeError: 'str' object cannot be "
            "interpreted as an integer",
        ),
    ],
)
def test_a_plugin_that_fails_in_planning_is_one_sentence(leaving, settings, message):
    _, err = leaving(2, *settings)
    assert err == f"fflbench: own.toml: {message}\n"


def test_long_names_and_labels_run_and_are_shown(fflbench):
    labels = {"中" * 100: "median", "l" * 200: "fedavg"}
    tables = "".join(f'[defense."{label}"]\nuse = "{name}"\n' for label, name in labels.items())
    fflbench.suite(
        SUITE.replace('["fedavg", "median", "foolsgold"]', json.dumps(list(labels), ensure_ascii=False))
        .replace('"none", "label-flipping"', '"none"')
        .replace("{rounds}", "1")
        + tables,
        name="s" * 200,
    )
    fflbench("run", f"{'s' * 200}.toml", "--seeds", "0")
    assert len(fflbench.records("s" * 200)) == 2
    fflbench("status", "results")
    fflbench("show", next(iter(fflbench.records("s" * 200))))


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "x" * 300 + ".toml"],
        ["run", "x" * 300 + ".json"],
        ["run", "own.toml", "--out", "x" * 300],
        ["run", "own.toml", "--plugin", "x" * 300 + ".py"],
        ["status", "x" * 300],
        ["show", "x" * 300],
        ["show", "x" * 300 + ".json"],
        ["show", "abc", "--out", "x" * 300],
        ["leaderboard", "x" * 300],
        ["verify", "x" * 300],
        ["data", "fetch", "x" * 300],
        ["run", "own.toml", "--memory-limit", "9" * 400 + "GB"],
        ["run", "own.toml", "--seeds", "9" * 5000],
        ["run", "own.toml", "--seeds", "9" * 30],
        ["run", "own.toml", "--seeds", "-1"],
        ["run", "own.toml", "--set", "attacks=1"],
        ["run", "own.toml", "--set", "participants=" + "9" * 18],
        ["run", "own.toml", "--set", "rounds=" + "9" * 30],
    ],
)
def test_long_names_and_absurd_options_are_one_sentence(refusal_of, arguments):
    # A folder that cannot be written is known only once the plan is made.
    plan = r"(own: 12 cells, 0 done already, 12 to run\n)?"
    assert re.fullmatch(rf"({plan}fflbench: .*\n)|(Usage: .*\n(.*\n)*Error: .*\n)", refusal_of(*arguments))
