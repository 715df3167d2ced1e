"""Whatever happens to a run: real processes, real signals, real disks."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.execution.conftest import SUITE, kill_group, results


def under_way(fflbench):
    """The cells that are running now."""
    now = fflbench.standing()
    return now.running if now else []


def played(fflbench):
    """Rounds that every cell under way has played."""
    return min((each.round for each in under_way(fflbench)), default=0)


@pytest.fixture
def memory_group():
    """A control group with little memory; what is called before a command begins puts it there."""
    made = []

    def limit(size):
        old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
        home, name = (old, "memory.limit_in_bytes") if old.is_dir() else (new, "memory.max")
        group = home / f"fflbench-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(size))
        except OSError as error:
            pytest.skip(f"may not limit memory: {error}")
        made.append(group)
        return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))

    yield limit
    for group in made:
        group.rmdir()


def ends(process):
    """Whether every process that a command started is gone soon."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            kill_group(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_a_truncated_record_is_told_and_redone(fflbench):
    fflbench("run", "own.toml", "--seeds", "0")
    file = next((fflbench.folder / "results/own").glob("*.json"))
    file.write_text(file.read_text()[:100])
    _, err = fflbench("run", "own.toml", "--seeds", "0")
    assert f"{file.name} is damaged" in err
    assert "1 to run" in err
    assert len(fflbench.records()) == 6


def test_a_cell_that_fails_or_dies_is_recorded_and_the_rest_goes_on(fflbench):
    defenses = '["raises", "dies", "median", "explodes"]'
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', defenses))
    out, err = fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1)
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    assert len(found) == 8
    for attack in ("none", "label-flipping"):
        assert found[attack, "raises"].status == "failed"
        assert "RuntimeError: this rule always fails" in found[attack, "raises"].error
        assert found[attack, "dies"].error == "the worker died: signal SIGKILL"
        assert found[attack, "median"].status == "done"
        assert found[attack, "explodes"].metrics["diverged"]
    assert "1 of 1 failed" in out
    assert "1 of 1 diverged" in out
    assert all("/" not in record.error for record in found.values())
    told = "failed: digits-mlp · robustness · none · raises · seed 0: RuntimeError: this rule always fails"
    alone = f"fflbench run results/own/{found['none', 'raises'].id}.json --plugin plugin.py"
    assert f"{told}\n  alone: {alone}\n" in err
    assert found["none", "raises"].facts == {"run_alone": alone}
    _, err = fflbench(*shlex.split(alone)[1:], code=1)
    assert "1 cell, 0 done already, 1 to run" in err
    assert told in err
    shown, _ = fflbench("show", found["none", "raises"].id)
    assert "this rule always fails" in shown
    # Failed cells are tried again, finished ones are not.
    _, err = fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1)
    assert "8 cells, 4 done already, 4 to run" in err


def test_ctrl_c_stops_at_once_keeps_what_is_finished_and_says_how_to_go_on(fflbench):
    fflbench.suite(rounds=300)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for(process, 2)
    kill_group(process, signal.SIGINT)
    # Alone on the machine it takes well under two seconds; what matters here is that it does not wait for a cell.
    assert process.wait(timeout=15) == 130
    _, err = process.communicate(timeout=60)
    assert "are finished and kept; the same command goes on with the rest" in err
    assert "Traceback" not in err
    kept = fflbench.records()
    assert 2 <= len(kept) < 12
    assert ends(process)


@pytest.mark.parametrize("delay", [0.3, 0.8, 1.5, 2.5])
def test_ctrl_c_while_starting_is_no_traceback_either(fflbench, delay):
    process = fflbench.start("run", "own.toml")
    time.sleep(delay)
    kill_group(process, signal.SIGINT)
    # Before Python has begun, the signal itself ends it; before the command has, Typer does.
    assert process.wait(timeout=15) in (-signal.SIGINT, 0, 1, 130)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert ends(process)


def test_two_runs_on_one_folder_are_refused_politely(fflbench):
    fflbench.suite(rounds=300)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for(process, 1)
    _, err = fflbench("run", "own.toml", code=2)
    assert "another run is writing to results/own (fflbench status results/own): wait for it" in err
    kill_group(process)
    process.communicate()


def test_what_json_cannot_hold_fails_its_own_cell_only(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["median", "unspeakable", "wordless"]'))
    out, _ = fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1)
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    assert found["none", "median"].status == "done"
    assert found["none", "unspeakable"].status == "failed"
    assert found["none", "wordless"].reason == "for no reason given"
    assert "1 of 1 failed" in out


def test_an_error_that_is_no_text_is_spelled_out(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["undecodable", "median"]'))
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1)
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    assert found["none", "undecodable"].reason == r"ValueError: caf\udce9.csv"
    assert found["label-flipping", "median"].status == "done"
    told, _ = fflbench("status", "results/own")
    assert found["none", "undecodable"].reason in told


def test_a_task_that_cannot_be_prepared_or_hangs_fails_its_own_cells_only(fflbench):
    (fflbench.folder / "tasks.py").write_text(
        '"""Tasks that misbehave."""\n'
        "import time\n"
        "from fflbench.registry import task\n"
        "from fflbench.tasks.digits_mlp import DigitsMLP\n"
        '@task("absent", title="Absent")\n'
        "class Absent(DigitsMLP):\n"
        '    """Digits that are not there."""\n'
        "    def data(self):\n"
        '        raise RuntimeError("no digits today")\n'
        '@task("stuck", title="Stuck")\n'
        "class Stuck(DigitsMLP):\n"
        '    """Digits that never come."""\n'
        "    def data(self):\n"
        "        time.sleep(1000)\n"
    )
    fflbench.suite(SUITE.replace('"digits-mlp"', '"absent", "stuck", "digits-mlp"').replace('"none", ', ""))
    settings = ("--set", "defenses=['fedavg']", "--seeds", "0", "--cell-timeout", "10s", "--plugin", "tasks.py")
    process = fflbench.start("run", "own.toml", *settings)
    fflbench.until(process, lambda: fflbench.standing())
    told, _ = fflbench("status")
    assert f"results/own: starting, process {process.pid} on " in told
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in err
    found = {record.labels["task"]: record for record in fflbench.records().values()}
    assert found["absent"].reason == "RuntimeError: no digits today"
    assert found["stuck"].reason == "took longer than 10 s (--cell-timeout)"
    assert found["digits-mlp"].status == "done"


def test_workers_end_with_their_driver(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]'), rounds=1000)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py")
    fflbench.until(process, lambda: under_way(fflbench))
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert ends(process)


def test_a_cell_that_hangs_is_given_up_and_the_rest_goes_on(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["hangs", "median"]'))
    _, err = fflbench("run", "own.toml", "--plugin", "plugin.py", "--cell-timeout", "10s", "--seeds", "0", code=1)
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    assert found["none", "hangs"].error == "took longer than 10 s (--cell-timeout)"
    assert found["label-flipping", "hangs"].status == "failed"
    assert found["none", "median"].status == "done"
    assert err.count("failed: digits-mlp") == 2


def test_a_cell_that_the_kernel_kills_for_memory_is_recorded_and_the_rest_goes_on(fflbench, memory_group):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["hungry", "median"]'))
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1, before=memory_group(2 * 10**9))
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    for attack in ("none", "label-flipping"):
        assert found[attack, "hungry"].reason.startswith("memory ran out, and the worker was killed for it")
        assert found[attack, "median"].status == "done"


def test_a_full_disk_stops_the_run_and_loses_nothing(fflbench, disk):
    """First the records fill it; once there is room again, the same command goes on."""
    place = disk("results", "size=250k")
    fflbench.suite(rounds=60)
    _, err = fflbench("run", "own.toml", code=2)
    assert "results cannot be kept in results/own: No space left on device; mend that or choose another --out" in err
    kept = fflbench.records()
    assert 0 < len(kept) < 12
    subprocess.run(["mount", "-o", "remount,size=10m", place], check=True)
    _, err = fflbench("run", "own.toml")
    assert f"12 cells, {len(kept)} done already" in err
    assert {key: fflbench.records()[key] for key in kept} == kept


def test_a_folder_that_may_not_be_written_is_told_before_anything_runs(fflbench, disk):
    disk("results", "ro")
    out, err = fflbench("run", "own.toml", code=2)
    assert "results cannot be kept in results/own: Read-only file system; mend that or choose another --out" in err
    assert out == ""


def test_a_folder_that_may_no_longer_be_written_stops_the_run_and_loses_nothing(fflbench):
    fflbench.suite(rounds=200)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for(process, 2)
    place = fflbench.folder / "results/own"
    if subprocess.run(["chattr", "+i", place], capture_output=True).returncode:
        pytest.skip("may not forbid writing to a folder that is in use")
    try:
        _, err = process.communicate(timeout=60)
    finally:
        subprocess.run(["chattr", "-i", place], check=True)
    assert process.returncode == 2
    assert "results cannot be kept in results/own: Operation not permitted; mend that" in err
    assert "Traceback" not in err
    kept = fflbench.records()
    assert 2 <= len(kept) < 12
    _, err = fflbench("run", "own.toml")
    assert f"12 cells, {len(kept)} done already" in err


FAKE_CLOCK = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.mark.skipif(FAKE_CLOCK is None, reason="needs Debian's libfaketime")
def test_a_clock_that_jumps_changes_nothing(fflbench, tmp_path):
    fflbench.suite(rounds=60)
    clock = tmp_path / "clock"
    clock.write_text("+0d")
    process = fflbench.start(
        "run",
        "own.toml",
        "--cell-timeout",
        "1h",
        LD_PRELOAD=str(FAKE_CLOCK),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        # As the system's clock is set: those that nobody sets go on as they did.
        DONT_FAKE_MONOTONIC="1",
    )
    for count, jump in ((2, "+4000d"), (5, "-4000d"), (8, "+0d")):
        fflbench.wait_for(process, count)
        clock.write_text(jump)
        told = fflbench.standing()
        assert 0 <= told.seconds < 120
        assert told.left is None or 0 <= told.left < 600
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    fflbench("run", "own.toml", "--out", "undisturbed")
    assert results(fflbench.records()) == results(fflbench.records(out="undisturbed"))
    assert all(0 <= record.seconds["total"] < 60 for record in fflbench.records().values())
    assert re.search(r"12 cells run in \d+ s", err)


def test_stopped_once_cells_keep_their_state_and_go_on_from_there(fflbench):
    text = SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]').replace('"none", ', "")
    fflbench.suite(text, rounds=30)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--workers", "2")
    fflbench.until(process, lambda: played(fflbench) >= 5)
    kill_group(process, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopping: nothing new starts" in err
    assert err.count("stopped, and its state is kept") == 2
    assert "stopped: 0 of 2 cells are finished and kept; the same command goes on with the rest" in err
    assert len(list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))) == 2
    told, _ = fflbench("status", "results/own")
    assert "results/own: stopped; to go on: fflbench run own.toml --plugin plugin.py --workers 2" in told
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--workers", "2", "--log-json")
    _, err = process.communicate(timeout=120)
    rounds = [told["round"] for told in map(json.loads, err.splitlines()) if told["event"] == "progress"]
    assert rounds[0] > 5
    assert not list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--out", "undisturbed")
    assert results(fflbench.records()) == results(fflbench.records(out="undisturbed"))


def test_a_batch_systems_sigterm_is_as_good_as_ctrl_c(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]'), rounds=1000)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--workers", "2")
    fflbench.until(process, lambda: played(fflbench) >= 2)
    # To all processes of the job, as batch systems do.
    kill_group(process, signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.count("stopped, and its state is kept") == 2


def test_a_terminal_shows_bars_and_may_close(fflbench):
    """It says so once or twice: bash tells its jobs, and the kernel whoever is left."""
    # So many cells that a busy machine cannot have finished them when the terminal closes.
    text = SUITE.replace('["fedavg", "median", "foolsgold"]', '["fedavg", "slow"]').replace("[0, 1]", "[0, 1, 2, 3]")
    fflbench.suite(text, rounds=100)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fflbench", "run", "own.toml", "--plugin", "plugin.py", "--workers", "2"]
    process = subprocess.Popen(
        command,
        cwd=fflbench.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=os.environ | {"COLUMNS": "160", "LINES": "20", "TERM": "xterm"},
    )
    fflbench.started.append(process)
    os.close(theirs)
    shown = ""

    def complete():
        nonlocal shown
        while select.select([ours], [], [], 0)[0]:
            shown += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", os.read(ours, 65536).decode("utf-8", "replace"))
        return all(re.search(part, shown) for part in SHOWN)

    def both_slow():
        """Those come first, as the longest: the second two, once the first two have ended."""
        return complete() and played(fflbench) and ["slow" in each.name for each in under_way(fflbench)] == [True, True]

    fflbench.until(process, both_slow)
    assert both_slow(), shown[-2000:]
    os.close(ours)
    time.sleep(0.005)
    os.kill(process.pid, signal.SIGHUP)
    # Python's own, where its last words find no reader.
    assert process.wait(timeout=20) in (130, 120)
    assert fflbench.standing().state == "stopped"
    assert len(list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))) == 2
    assert ends(process)


SHOWN = (
    r"cells .* \d+/16 +2 running, [\d.]+ a minute, [\w ]+ left",
    r"digits-mlp · robustness · (none|label-flipping) · slow · seed [0-3] .*\d+/100 accuracy [\d.]+%",
)


def test_stopped_twice_it_stops_at_once(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["median", "hangs"]'), rounds=2)
    # What never answers is estimated as the longest, and comes first.
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", "--workers", "3")
    fflbench.wait_for(process, 2)
    kill_group(process, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=3)
    assert fflbench.standing().state == "stopping"
    kill_group(process, signal.SIGINT)
    _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "stopped: 2 of 4 cells are finished and kept" in err
    assert "Traceback" not in err
    assert ends(process)
    assert len(fflbench.records()) == 2


def test_status_tells_from_another_terminal_where_a_run_stands(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["raises", "slow"]'), rounds=1000)
    command = ("run", "own.toml", "--plugin", "plugin.py", "--workers", "1", "--set", "attacks=['none']")
    process = fflbench.start(*command)
    fflbench.until(process, lambda: played(fflbench) >= 2)
    told, _ = fflbench("status")
    assert re.match(r"results/own: running, a few seconds so far, process \d+ on ", told)
    assert "cells    0 of 4 done (0 before this run), 1 running, " in told
    assert re.search(
        r"running  digits-mlp · robustness · none · slow · seed [01]: round \d+ of 1000, accuracy [\d.]+%, worker 1",
        told,
    )
    (only,) = [json.loads(line) for line in fflbench("status", "results/own", "--json")[0].splitlines()]
    assert only["state"] == "running"
    assert only["process"] == process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    told, _ = fflbench("status", "results")
    assert "results/own: ended without a word; what is finished is kept; to go on: fflbench run own.toml" in told
    assert "0 running" in told


def test_status_of_nothing_is_one_sentence(fflbench):
    _, err = fflbench("status", "nowhere", code=2)
    assert err == "fflbench: there is no folder nowhere\n"
    (fflbench.folder / "empty").mkdir()
    _, err = fflbench("status", "empty", code=2)
    assert err == "fflbench: empty holds no run and no record\n"
    (fflbench.folder / "empty/.run").write_text("{")
    _, err = fflbench("status", "empty", code=2)
    assert err == "fflbench: empty/.run is damaged; the next run in that folder makes it anew\n"


def test_machines_are_told_everything_a_line_at_a_time(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["raises", "median"]'))
    out, err = fflbench("run", "own.toml", "--plugin", "plugin.py", "--log-json", code=1)
    told = [json.loads(line) for line in err.splitlines()]
    assert told[0] | {"text": ""} == {"event": "plan", "text": "", "suite": "own", "cells": 8, "done": 0}
    finished = [each for each in told if each["event"] == "finished"]
    assert sorted(each["status"] for each in finished) == ["done"] * 4 + ["failed"] * 4
    assert (finished[-1]["done"], finished[-1]["failed"], finished[-1]["running"], finished[-1]["left"]) == (4, 4, 0, 0)
    assert {each["event"] for each in told} >= {"plan", "started", "finished", "end", "failed"}
    assert all(each["command"].startswith("fflbench run results/own/") for each in told if each["event"] == "failed")
    assert "digits-mlp, robustness under label-flipping" in out
    _, err = fflbench("run", "nowhere", "--log-json", code=2)
    assert json.loads(err)["event"] == "error"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cell-timeout", "soon"], '"soon" is no stretch of time such as 90s, 30m or 2h'),
        (["--cell-timeout", "0"], '"0" is no stretch of time'),
        (["--address", "10.0.0.1:6379"], "--address is that of a Ray cluster: add --executor ray"),
        (["--executor", "ray", "--address", "10.0.0.1"], "--address 10.0.0.1: a machine and a port are needed, as in"),
        (["--executor", "ray", "--address", "127.0.0.1:1"], "--address 127.0.0.1:1: no Ray cluster can be reached"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(fflbench, arguments, sentence):
    _, err = fflbench("run", "own.toml", *arguments, code=2)
    assert sentence in err.splitlines()[-1]
    assert not fflbench.standing()
