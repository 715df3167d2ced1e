import json
import os
import signal
import subprocess
import sys
import time

import pytest

import fflbench as package
from fflbench.execution import cell as cells
from fflbench.execution import run as running
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.execution.conftest import SUITE, kill_group


def results(records):
    return {record.id: json.dumps(record.result()) for record in records.values()}


def visible(fflbench):
    """What a finished run leaves, but for its lock."""
    return [file for file in (fflbench.folder / "results/own").iterdir() if file.name != ".lock"]


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


def test_a_run_prints_tables_and_the_next_one_runs_nothing(fflbench):
    out, err = fflbench("run", "own.toml")
    assert "digits-mlp under label-flipping" in out
    assert "attack success %" in out
    assert "fedavg (no attack)" in out
    assert "12 cells, 0 done already, 12 to run" in err
    assert "[12/12]" in err
    first = {file.name: file.stat().st_mtime_ns for file in (fflbench.folder / "results/own").glob("*.json")}
    assert len(first) == 12
    again, err = fflbench("run", "own.toml")
    assert again == out
    assert "12 cells, 12 done already, 0 to run" in err
    assert {f.name: f.stat().st_mtime_ns for f in (fflbench.folder / "results/own").glob("*.json")} == first
    assert (fflbench.folder / "results/own/tables.md").read_text().startswith("# own\n")
    assert (fflbench.folder / "results/own/tables.csv").read_text().count("\n") > 12


def test_one_worker_or_two_and_twice_give_the_same_bits(fflbench):
    fflbench("run", "own.toml", "--workers", "1", "--out", "one")
    fflbench("run", "own.toml", "--workers", "2", "--out", "two")
    assert results(fflbench.records(out="one")) == results(fflbench.records(out="two"))
    before = fflbench.records(out="two")
    fflbench("run", "own.toml", "--workers", "2", "--out", "two", "--force")
    after = fflbench.records(out="two")
    assert results(before) == results(after)
    assert all(before[key].seconds != after[key].seconds for key in before)


def test_records_of_another_results_version_are_redone(fflbench):
    fflbench("run", "own.toml", "--seeds", "0")
    files = sorted((fflbench.folder / "results/own").glob("*.json"))
    old = json.loads(files[0].read_text())
    old["manifest"]["results"]["core"] = 0
    old["metrics"]["accuracy"] = 0.123
    files[0].write_text(json.dumps(old))
    _, err = fflbench("run", "own.toml", "--seeds", "0")
    assert "6 cells, 5 done already, 1 to run" in err
    assert json.loads(files[0].read_text())["metrics"]["accuracy"] != 0.123


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
    assert "failed: digits-mlp · none · raises · seed 0: RuntimeError: this rule always fails (fflbench show" in err
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


def test_labels_of_today_are_those_of_the_tables(fflbench):
    text = SUITE.replace('["fedavg", "median", "foolsgold"]', '["one"]') + '[defense.one]\nuse = "median"\n'
    fflbench.suite(text)
    fflbench("run", "own.toml", "--seeds", "0")
    fflbench.suite(text.replace('"one"', '"other"').replace("defense.one", "defense.other"))
    out, err = fflbench("run", "own.toml", "--seeds", "0")
    assert "0 to run" in err
    assert "other" in out
    assert "one " not in out


def test_what_json_cannot_hold_fails_its_own_cell_only(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["median", "unspeakable", "wordless"]'))
    out, _ = fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", code=1)
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    assert found["none", "median"].status == "done"
    assert found["none", "unspeakable"].status == "failed"
    assert found["none", "wordless"].reason == "for no reason given"
    assert "1 of 1 failed" in out


def test_a_table_that_a_setting_leaves_unused_is_no_error(fflbench):
    fflbench.suite(SUITE + "[defense.median]\n")
    _, err = fflbench("run", "own.toml", "--set", 'defenses=["fedavg"]', "--dry-run")
    assert "4 cells" in err


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "qick"], 'there is no suite or file "qick"; did you mean "quick"? (fflbench list suites)'),
        (["run", "own.toml", "--set", "ruonds=3"], 'has no parameter "ruonds"; did you mean "rounds"?'),
        (
            ["run", "own.toml", "--set", "defense.median.f=3"],
            'own.toml: [defense.median]: defense "median" has no parameter',
        ),
        (["run", "own.toml", "--plugin", "nowhere.py"], "plugin nowhere.py could not be loaded"),
        (["run", "own.toml", "--out", "own.toml"], "results cannot be kept in own.toml/own"),
        (["run", "own.toml", "--device", "nowhere"], "--device nowhere: there is no such device here"),
        (
            ["run", "own.toml", "--set", "participants=20000"],
            "1437 examples cannot be divided among 20000 participants",
        ),
        (["run", "x" * 300], "there is no suite or file"),
        (["run", "own.toml", "--set", "rounds=" + "[" * 5000], "should be a valid integer"),
        (["run", "own.toml", "--set", "seeds=[0x" + "f" * 5000 + "]"], "own.toml: seeds"),
        (["run", "nowhere.json"], "nowhere.json cannot be read: No such file"),
        (["show", "abc"], 'no record under results with an id that begins with "abc"'),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(fflbench, arguments, sentence):
    out, err = fflbench(*arguments, code=2)
    assert sentence in err.splitlines()[-1]
    assert out == ""


def test_seeds_that_are_no_numbers_are_refused(fflbench):
    _, err = fflbench("run", "own.toml", "--seeds", "zero", code=2)
    assert '"zero" is not a list of whole numbers such as 0,1,2' in err


def test_a_dry_run_runs_nothing_and_estimates(fflbench):
    fflbench("run", "own.toml", "--seeds", "0")
    out, err = fflbench("run", "own.toml", "--dry-run")
    assert out.count("  done\n") == 6
    assert out.count("  to run\n") == 6
    assert "6 done already, 6 to run" in err
    assert "by a short calibration" in err
    assert len(fflbench.records()) == 6


def test_a_record_can_be_run_again_and_gives_the_same(fflbench):
    fflbench("run", "own.toml", "--seeds", "0", "--plugin", "plugin.py")
    tables = (fflbench.folder / "results/own/tables.md").read_bytes()
    before = fflbench.records()
    record = next(iter(before.values()))
    shown, _ = fflbench("show", record.id[:6])
    command = shown.splitlines()[-1].split()
    assert command[:2] == ["fflbench", "run"]
    assert command[-2:] == ["--plugin", "plugin.py"]
    _, err = fflbench(*command[1:])
    assert "1 cell, 0 done already, 1 to run" in err
    assert results(fflbench.records()) == results(before)
    assert (fflbench.folder / "results/own/tables.md").read_bytes() == tables


def test_from_python_a_script_needs_no_guard(fflbench):
    (fflbench.folder / "script.py").write_text(
        "import fflbench\n"
        "records = fflbench.run('own.toml', out='from-python', seeds=[0], settings=['rounds=1'], workers=2)\n"
        "print(len(records), len(fflbench.load('from-python')), records[0].status)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=fflbench.folder, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "6 6 done\n"


def test_a_plugin_in_the_script_itself_is_told_to_move(fflbench):
    (fflbench.folder / "script.py").write_text(
        "import fflbench\n"
        "from fflbench.registry import defense\n"
        "@defense('mine', title='Mine')\n"
        "def mine(updates):\n"
        "    'Mine.'\n"
        "    return updates.mean(0)\n"
        "fflbench.run('own.toml', settings=['defenses=[\"mine\"]'])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=fflbench.folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert 'defense "mine" stands in the script itself; move it to a file' in done.stderr


def one_cell(**overrides):
    content = {
        "tasks": ["digits-mlp"],
        "attacks": ["label-flipping"],
        "defenses": ["foolsgold"],
        "seeds": [0],
        "overrides": {"rounds": 6, "average_last": 3, **overrides},
    }
    return plan(parse(content, "own", "own.toml"))[0]


class Stop(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("stop", [1, 4, 6])
def test_a_checkpointed_cell_goes_on_to_the_same_bits(tmp_path, monkeypatch, stop):
    monkeypatch.setattr(cells, "CHECKPOINT_SECONDS", 0.0)
    cell, file = one_cell(), tmp_path / "own.checkpoint.npz"
    whole = cells.play(cell, "own")
    rounds = []

    def interrupted(told):
        rounds.append(told["round"])
        if told["round"] == stop:
            raise Stop

    with pytest.raises(Stop):
        cells.play(cell, "own", checkpoint=file, tell=interrupted)
    assert file.is_file() is (stop > 1)
    again = cells.play(cell, "own", checkpoint=file, tell=lambda told: rounds.append(told["round"]))
    assert again.result() == whole.result()
    # The round in which it stopped was not yet kept.
    assert rounds == [*range(1, stop + 1), *range(stop, 7)]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-40] + b"x" * 40])
def test_a_damaged_checkpoint_is_as_good_as_none(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(cells, "CHECKPOINT_SECONDS", 0.0)
    cell, file = one_cell(), tmp_path / "own.checkpoint.npz"
    whole = cells.play(cell, "own", checkpoint=file)
    file.write_bytes(damage(file.read_bytes()))
    assert cells.play(cell, "own", checkpoint=file).result() == whole.result()


def test_a_checkpoint_of_other_versions_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "CHECKPOINT_SECONDS", 0.0)
    cell, file, rounds = one_cell(), tmp_path / "own.checkpoint.npz", []
    cells.play(cell, "own", checkpoint=file)
    monkeypatch.setattr("fflbench.records.manifest.RESULTS_VERSION", 99)
    cells.play(cell, "own", checkpoint=file, tell=lambda told: rounds.append(told["round"]))
    assert rounds[0] == 1


def test_short_cells_do_not_checkpoint(tmp_path):
    cells.play(one_cell(), "own", checkpoint=tmp_path / "own.checkpoint.npz")
    assert not list(tmp_path.iterdir())


def test_the_manifest_says_with_what_it_was_made():
    made = cells.play(one_cell(rounds=1), "own").manifest
    assert made["results"] == {"core": 2, "task": 1, "attack": 1, "defense": 1}
    assert made["fflbench"] == package.__version__
    assert {"numpy", "torch"} <= set(made["libraries"])
    assert made["threads"] == 1
    assert made["processor"]


def test_a_plan_names_what_stands_and_what_is_open(tmp_path):
    (tmp_path / "own.toml").write_text(SUITE.format(rounds=1))
    planned = running.prepare(str(tmp_path / "own.toml"), out=tmp_path, seeds=[0])
    assert (len(planned.cells), len(planned.open)) == (6, 6)
    planned.store.write(cells.play(planned.cells[2], "own"))
    again = running.prepare(str(tmp_path / "own.toml"), out=tmp_path, seeds=[0])
    assert len(again.open) == 5
    assert planned.cells[2] not in again.open
    assert running.prepare(str(tmp_path / "own.toml"), out=tmp_path, seeds=[0], force=True).done == {}
    assert planned.cells[0].create(Kind.TASK).rounds == 1


def test_a_leaderboards_record_is_run_again_elsewhere(fflbench):
    """Else its digest would no longer hold."""
    fflbench("run", "own.toml", "--seeds", "0")
    file = next((fflbench.folder / "results/own").glob("*.json"))
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "suite": "../own"}))
    (file.parent / "SHA256SUMS").write_text("")
    before = file.read_bytes()
    fflbench("run", str(file), "--force", "--out", str(fflbench.folder / "again/results"))
    assert file.read_bytes() == before
    again = fflbench.folder / "again/results/own" / file.name
    assert json.loads(again.read_text())["metrics"] == told["metrics"]
