"""Whatever happens to a run: real processes, real signals, real disks."""

import os
import signal
import time

import pytest

from tests.execution.conftest import SUITE, kill_group


def visible(fflbench):
    """What a finished run leaves for its user."""
    return [file for file in (fflbench.folder / "results/own").iterdir() if not file.name.startswith(".")]


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
    told = "failed: digits-mlp · none · raises · seed 0: RuntimeError: this rule always fails"
    alone = f"fflbench run results/own/{found['none', 'raises'].id}.json --plugin plugin.py"
    assert f"{told}\n  alone: {alone}\n" in err
    assert found["none", "dies"].facts == {
        "run_alone": f"fflbench run {found['none', 'dies'].id}.json --plugin plugin.py"
    }
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
    assert "another run is writing to results/own: wait for it, or choose another --out" in err
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


@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_killed_at_any_moment_nothing_finished_is_lost_and_no_file_is_invalid(fflbench, after):
    fflbench.suite(rounds=20)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for(process, after)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    kept = fflbench.records() if (fflbench.folder / "results/own").is_dir() else {}
    assert len(kept) >= after
    _, err = fflbench("run", "own.toml")
    assert f"12 cells, {len(kept)} done already" in err
    assert len(fflbench.records()) == 12
    assert sorted(file.suffix for file in visible(fflbench)) == [".csv", *[".json"] * 12, ".md"]


def test_workers_end_with_their_driver(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]'), rounds=1000)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py")
    time.sleep(8)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert ends(process)
