import json
import re
import shlex
import subprocess
import sys

import pytest

from fflbench.execution import run_cell as cells
from fflbench.execution.cells_to_run import plan_run
from fflbench.execution.run_options import Options
from fflbench.registry import Kind
from tests.execution.conftest import SUITE, result_texts


def test_a_run_prints_its_summary_and_the_next_one_runs_nothing(fflbench):
    out, err = fflbench("run", "own.toml")
    assert "digits-mlp: worst cases over all attacks" in out
    assert "digits-mlp, robustness under label-flipping" not in out
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


def test_a_run_ends_with_its_folder_and_the_next_command(fflbench):
    fflbench.suite(SUITE.replace('"fedavg", ', '"raises", '))
    options = ("own.toml", "--plugin", "plugin.py", "--seeds", "0")
    out, err = fflbench("run", *options, code=1)
    assert "⚑ 2 cells failed: digits-mlp · robustness · none · raises · seed 0" in out
    *_, alone, places, announced, command = err.splitlines()
    assert alone.startswith("  alone: fflbench run results/own/")
    assert re.fullmatch(
        r"6 cells run in \d+ s; records are in results/own, all tables in results/own/tables.md "
        r"\(--tables all prints 2 more\)",
        places,
    )
    assert (announced, command) == ("next:", "  fflbench leaderboard results/own --plugin plugin.py")
    fflbench(*shlex.split(command)[1:])
    out, err = fflbench("run", *options, "--tables", "all", code=1)
    page = (fflbench.folder / "results/own/tables.md").read_text()
    assert page.count("### ") == 3
    for heading in re.findall("^### (.*)$", page, re.MULTILINE):
        assert heading.replace("\\", "") in out
    assert err.splitlines()[-3].endswith("records are in results/own, all tables in results/own/tables.md")


def test_a_single_record_ends_without_a_next_command(fflbench):
    fflbench("run", "own.toml", "--seeds", "0")
    record = next((fflbench.folder / "results/own").glob("*.json"))
    _, err = fflbench("run", str(record.relative_to(fflbench.folder)))
    assert re.search(r"its record is in results/own \(--tables all prints \d more\)$", err)


def test_one_worker_or_two_and_twice_give_the_same_bits(fflbench):
    fflbench("run", "own.toml", "--workers", "1")
    before = fflbench.records()
    fflbench("run", "own.toml", "--workers", "2", "--force")
    after = fflbench.records()
    assert result_texts(before) == result_texts(after)
    assert all(before[key].seconds != after[key].seconds for key in before)


def test_the_longest_cells_come_first(fflbench):
    """By the calibration: what the suite names first is the shortest."""
    text = SUITE.replace('["digits-mlp"]', '["digits-mlp", "digits-cnn"]').replace(
        '["fedavg", "median", "foolsgold"]', '["fedavg"]'
    )
    fflbench.suite(text)
    _, err = fflbench("run", "own.toml", "--workers", "1", "--log-json")
    events = [json.loads(line) for line in err.splitlines()]
    order = [each["name"].split(" ")[0] for each in events if each["event"] == "started"]
    assert order == ["digits-cnn"] * 4 + ["digits-mlp"] * 4


OWN_RULE = '''
"""A rule of somebody's."""
from fflbench.registration import rule

@rule("own-rule", title="Own rule")
def own_rule(updates):
    """The mean."""
    return updates.mean(0)
'''


def test_an_edited_plugin_is_run_again_and_a_comment_is_no_edit(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["median", "own-rule"]'))
    plugin = fflbench.folder / "own_rule.py"
    plugin.write_text(OWN_RULE)
    run = ("run", "own.toml", "--seeds", "0", "--plugin", "own_rule.py")
    fflbench(*run)
    before = result_texts(fflbench.records())
    plugin.write_text(OWN_RULE.replace("    return", "    # Nothing to see here.\n    return"))
    _, err = fflbench(*run)
    assert "4 cells, 4 done already, 0 to run" in err
    plugin.write_text(OWN_RULE.replace("return updates", "return -updates"))
    _, err = fflbench(*run)
    assert "4 cells, 2 done already, 2 to run" in err
    message = '2 finished cells run again because code that they depend on has changed: rule "own-rule"'
    assert [line for line in err.splitlines() if "run again" in line] == [message]
    assert sum(before[key] != after for key, after in result_texts(fflbench.records()).items()) == 2
    _, err = fflbench(*run)
    assert "4 cells, 4 done already, 0 to run" in err


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


def test_the_current_labels_and_title_are_those_of_the_tables(fflbench):
    text = SUITE.replace('["fedavg", "median", "foolsgold"]', '["one"]') + '[defense.one]\nuse = "median"\n'
    fflbench.suite(text)
    fflbench("run", "own.toml", "--seeds", "0")
    fflbench.suite('title = "Renamed"\n' + text.replace('"one"', '"other"').replace("defense.one", "defense.other"))
    out, err = fflbench("run", "own.toml", "--seeds", "0")
    assert "0 to run" in err
    assert {record.title for record in fflbench.records().values()} == {"Renamed"}
    assert "other" in out
    assert "one " not in out
    assert {record.labels["defense"] for record in fflbench.records().values()} == {"other"}


SHARED = """
tasks = ["digits-mlp"]
attacks = ["analytic"]
defenses = ["fedavg", "ffl"]
seeds = [0]
[measure]
use = "reconstruction"
groups = 1
"""


def test_a_row_that_shares_a_finished_cell_is_shown_without_running_anything(fflbench):
    fflbench.suite(SHARED)
    out, err = fflbench("run", "own.toml")
    assert "2 cells, 0 done already, 2 to run" in err
    assert "median" not in out
    before = result_texts(fflbench.records())
    fflbench.suite(SHARED.replace('"fedavg", ', '"fedavg", "median", "krum", '))
    out, err = fflbench("run", "own.toml")
    assert "2 cells, 2 done already, 0 to run" in err
    rows = [line.split()[1:3] for line in out.splitlines() if line.strip().startswith("submission")]
    assert [row[0] for row in rows] == ["fedavg", "median", "krum", "ffl"] * 2
    assert rows[0][1] == rows[1][1] == rows[2][1] != rows[3][1]
    # Its file says so too, and nothing else of it has changed: whatever is made from the folder shows the row.
    kept = fflbench.records()
    assert sorted(list(record.shared_by) for record in kept.values()) == [[], ["median", "krum"]]
    alone = {key: record.model_copy(update={"shared_by": {}}) for key, record in kept.items()}
    assert result_texts(alone) == before
    fflbench("leaderboard", "results/own", "--out", "board")
    assert "median" in (fflbench.folder / "board/README.md").read_text()


def test_a_run_of_fewer_defenses_takes_no_row_away(fflbench):
    fflbench.suite(SHARED.replace('"fedavg", ', '"fedavg", "median", '))
    fflbench("run", "own.toml")
    before = {file.name: file.read_bytes() for file in (fflbench.folder / "results/own").glob("*.json")}
    out, err = fflbench("run", "own.toml", "--set", 'defenses=["median"]')
    assert "1 cell, 1 done already, 0 to run" in err
    assert "fedavg" not in out
    assert {file.name: file.read_bytes() for file in (fflbench.folder / "results/own").glob("*.json")} == before


def test_attackers_deviate_as_the_suite_says(fflbench):
    fflbench.suite(
        SUITE.replace('["fedavg", "median", "foolsgold"]', '["fedavg", "ffl"]')
        + "[deviation.fragment-exchange]\nstrategy = [1, 2]\nabort = [false, true]\n"
    )
    out, err = fflbench("run", "own.toml", "--seeds", "0", "--tables", "all")
    assert "7 cells, 0 done already, 7 to run" in err
    found = {record.labels.get("deviation"): record for record in fflbench.records().values()}
    assert "ffl, strategy = 2, abort = True" in " ".join(out.split())
    kept, broken = (found[f"strategy = 1, abort = {abort}"].facts["faults"] for abort in (False, True))
    assert (kept, broken > 0) == (0, True)


def test_a_table_that_a_setting_leaves_unused_is_no_error(fflbench):
    fflbench.suite(SUITE + "[defense.median]\n")
    _, err = fflbench("run", "own.toml", "--set", 'defenses=["fedavg"]', "--dry-run")
    assert "4 cells" in err


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
    assert '"zero" is not a list of integers such as 0,1,2' in err


def test_a_dry_run_runs_nothing_and_estimates(fflbench):
    fflbench("run", "own.toml", "--seeds", "0")
    out, err = fflbench("run", "own.toml", "--dry-run")
    assert out.count("  done\n") == 6
    assert out.count("  to run\n") == 6
    assert "6 done already, 6 to run" in err
    assert "by a short calibration, and up to 500.4 MB of memory each" in err
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
    assert result_texts(fflbench.records()) == result_texts(before)
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
        "from fflbench.registration import rule\n"
        "@rule('mine', title='Mine')\n"
        "def mine(updates):\n"
        "    'Mine.'\n"
        "    return updates.mean(0)\n"
        "fflbench.run('own.toml', settings=['defenses=[\"mine\"]'])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=fflbench.folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert 'rule "mine" is defined in the main script; move it to a file' in done.stderr


def test_a_plan_separates_finished_cells_from_those_to_run(tmp_path):
    (tmp_path / "own.toml").write_text(SUITE.format(rounds=1))
    planned = plan_run(str(tmp_path / "own.toml"), Options(), out=tmp_path, seeds=[0])
    assert (len(planned.cells), len(planned.to_run)) == (6, 6)
    planned.store.write(cells.run_cell(planned.cells[2], "own"))
    again = plan_run(str(tmp_path / "own.toml"), Options(), out=tmp_path, seeds=[0])
    assert len(again.to_run) == 5
    assert planned.cells[2] not in again.to_run
    assert plan_run(str(tmp_path / "own.toml"), Options(), out=tmp_path, seeds=[0], force=True).done == {}
    assert planned.cells[0].create(Kind.TASK).rounds == 1


def test_a_leaderboards_record_is_run_again_elsewhere(fflbench):
    """Records that a leaderboard is made of stay as they are."""
    fflbench("run", "own.toml", "--seeds", "0")
    fflbench("leaderboard", "results/own", "--out", "boards/own")
    board = fflbench.folder / "boards/own"
    before = {file: file.read_bytes() for file in board.rglob("*") if file.is_file()}
    written = json.loads(next((fflbench.folder / "results/own").glob("*.json")).read_text())
    fflbench("run", f"boards/own/{written['id']}", "--force", "--out", "again/results")
    assert {file: file.read_bytes() for file in board.rglob("*") if file.is_file()} == before
    again = fflbench.folder / "again/results/own" / f"{written['id']}.json"
    assert json.loads(again.read_text())["metrics"] == written["metrics"]
