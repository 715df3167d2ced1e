"""Failures of cells, disks and the clock: real processes, real disks."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.execution.conftest import SUITE, kill_group, result_texts


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
    message = "failed: digits-mlp · robustness · none · raises · seed 0: RuntimeError: this rule always fails"
    alone = f"fflbench run results/own/{found['none', 'raises'].id}.json --plugin plugin.py"
    assert f"{message}\n  alone: {alone}\n" in err
    assert found["none", "raises"].facts == {"run_alone": alone}
    _, err = fflbench(*shlex.split(alone)[1:], code=1)
    assert "1 cell, 0 done already, 1 to run" in err
    assert message in err
    shown, _ = fflbench("show", found["none", "raises"].id)
    assert "this rule always fails" in shown
    # Failed cells are tried again, finished ones are not.
    _, err = fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1)
    assert "8 cells, 4 done already, 4 to run" in err


def test_two_runs_on_one_folder_are_refused_politely(fflbench):
    fflbench.suite(rounds=300)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for_records(process, 1)
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
    message, _ = fflbench("status", "results/own")
    assert found["none", "undecodable"].reason in message


def test_a_task_that_cannot_be_prepared_or_hangs_fails_its_own_cells_only(fflbench):
    (fflbench.folder / "tasks.py").write_text(
        '"""Tasks that misbehave."""\n'
        "import time\n"
        "from fflbench.registration import task\n"
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
    fflbench.wait_until(process, lambda: fflbench.status())
    message, _ = fflbench("status")
    assert f"results/own: starting, process {process.pid} on " in message
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in err
    found = {record.labels["task"]: record for record in fflbench.records().values()}
    assert found["absent"].reason == "RuntimeError: no digits today"
    assert found["stuck"].reason == "took longer than 10 s (--cell-timeout)"
    assert found["digits-mlp"].status == "done"


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
        assert found[attack, "hungry"].reason.startswith("the worker was killed because memory ran out")
        assert found[attack, "median"].status == "done"


def test_a_full_disk_stops_the_run_and_loses_nothing(fflbench, disk):
    """First the records fill it; once there is room again, the same command goes on."""
    place = disk("results", "size=250k")
    fflbench.suite(rounds=60)
    _, err = fflbench("run", "own.toml", code=2)
    assert "results cannot be kept in results/own: No space left on device" in err
    kept = fflbench.records()
    assert 0 < len(kept) < 12
    subprocess.run(["mount", "-o", "remount,size=10m", place], check=True)
    _, err = fflbench("run", "own.toml")
    assert f"12 cells, {len(kept)} done already" in err
    assert {key: fflbench.records()[key] for key in kept} == kept


def test_a_folder_that_may_not_be_written_is_told_before_anything_runs(fflbench, disk):
    disk("results", "ro")
    out, err = fflbench("run", "own.toml", code=2)
    assert "results cannot be kept in results/own: Read-only file system" in err
    assert out == ""


def test_a_folder_that_may_no_longer_be_written_stops_the_run_and_loses_nothing(fflbench):
    fflbench.suite(rounds=200)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for_records(process, 2)
    place = fflbench.folder / "results/own"
    if subprocess.run(["chattr", "+i", place], capture_output=True).returncode:
        pytest.skip("may not forbid writing to a folder that is in use")
    try:
        _, err = process.communicate(timeout=60)
    finally:
        subprocess.run(["chattr", "-i", place], check=True)
    assert process.returncode == 2
    assert "results cannot be kept in results/own: Operation not permitted" in err
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
        fflbench.wait_for_records(process, count)
        clock.write_text(jump)
        now = fflbench.status()
        assert 0 <= now.seconds < 120
        assert now.left is None or 0 <= now.left < 600
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    fflbench("run", "own.toml", "--out", "undisturbed")
    assert result_texts(fflbench.records()) == result_texts(fflbench.records(out="undisturbed"))
    assert all(0 <= record.seconds["total"] < 60 for record in fflbench.records().values())
    assert re.search(r"12 cells run in \d+ s", err)
