"""`fflbench status`, `--log-json` and options of `fflbench run`, as a user calls them."""

import json
import os
import re
import signal

import pytest

from tests.execution.conftest import SUITE, rounds_done


def test_status_tells_from_another_terminal_where_a_run_stands(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["raises", "slow"]'), rounds=1000)
    command = ("run", "own.toml", "--plugin", "plugin.py", "--workers", "1", "--set", "attacks=['none']")
    process = fflbench.start(*command)
    fflbench.wait_until(process, lambda: rounds_done(fflbench) >= 2)
    message, _ = fflbench("status")
    assert re.match(r"results/own: running, a few seconds so far, process \d+ on ", message)
    assert "cells    0 of 4 done (0 before this run), 1 running, " in message
    assert re.search(
        r"running  digits-mlp · robustness · none · slow · seed [01]: round \d+ of 1000, accuracy [\d.]+%, worker 1",
        message,
    )
    (only,) = [json.loads(line) for line in fflbench("status", "results/own", "--json")[0].splitlines()]
    assert only["state"] == "running"
    assert only["process"] == process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    message, _ = fflbench("status", "results")
    assert "results/own: ended unexpectedly; finished cells are kept; to resume: fflbench run own.toml" in message
    assert "0 running" in message


def test_status_of_nothing_is_one_sentence(fflbench):
    _, err = fflbench("status", "nowhere", code=2)
    assert err == "fflbench: there is no folder nowhere\n"
    (fflbench.folder / "empty").mkdir()
    _, err = fflbench("status", "empty", code=2)
    assert err == "fflbench: empty holds no run and no record\n"
    (fflbench.folder / "empty/.run").write_text("{")
    _, err = fflbench("status", "empty", code=2)
    assert err == "fflbench: empty/.run is damaged; the next run in that folder replaces it\n"


def test_machines_are_told_everything_a_line_at_a_time(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["raises", "median"]'))
    out, err = fflbench("run", "own.toml", "--plugin", "plugin.py", "--log-json", code=1)
    events = [json.loads(line) for line in err.splitlines()]
    assert events[0] | {"text": ""} == {"event": "plan", "text": "", "suite": "own", "cells": 8, "done": 0}
    finished = [each for each in events if each["event"] == "finished"]
    assert sorted(each["status"] for each in finished) == ["done"] * 4 + ["failed"] * 4
    assert (finished[-1]["done"], finished[-1]["failed"], finished[-1]["running"], finished[-1]["left"]) == (4, 4, 0, 0)
    assert {each["event"] for each in events} >= {"plan", "started", "finished", "end", "failed"}
    assert all(each["command"].startswith("fflbench run results/own/") for each in events if each["event"] == "failed")
    assert events[-1]["event"] == "end"
    assert "digits-mlp: worst cases over all attacks" in out
    _, err = fflbench("run", "nowhere", "--log-json", code=2)
    assert json.loads(err)["event"] == "error"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cell-timeout", "soon"], '"soon" is not a duration such as 90s, 30m or 2h'),
        (["--cell-timeout", "0"], '"0" is not a duration'),
        (["--address", "10.0.0.1:6379"], "--address is for executors on a cluster: add --executor ray"),
        (["--executor", "ray", "--address", "10.0.0.1"], "--address 10.0.0.1: give a machine and a port, as in"),
        (["--executor", "ray", "--address", "127.0.0.1:1"], "--address 127.0.0.1:1: no Ray cluster can be reached"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(fflbench, arguments, sentence):
    _, err = fflbench("run", "own.toml", *arguments, code=2)
    assert sentence in err.splitlines()[-1]
    assert not fflbench.status()
