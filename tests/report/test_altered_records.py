"""Records that anyone may have altered: named and left out, or shown, wherever they are read."""

import csv
import io
import json

import pytest

from fflbench import load
from fflbench.errors import RecordError
from fflbench.records import collection
from fflbench.records.record import Record, cell_id
from fflbench.records.store import Store, read_record
from fflbench.report import leaderboard, run_report, show_record, table_formats
from fflbench.report.all_tables import build_board
from tests.report.record_folders import (
    record_content,
    refusal_message,
    run_fflbench,
    write_record,
    write_run_folder,
)
from tests.report.synthetic_records import WHOLE, no_arrays, robustness_record


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["history"][0].update(honest_trust="abc"),
        lambda content: content["configuration"].update(deviation={"name": "plain", "parameters": {}}),
        lambda content: content["configuration"]["defense"].pop("rule"),
        lambda content: content.update(shared_by={"median": {}}),
        lambda content: content["configuration"].update(suite=3),
        lambda content: content["configuration"].update(measure={"name": "runtime", "parameters": {}}),
        lambda content: content["metrics"].update(accuracy=1e200),
        lambda content: content["labels"].update(task="a" * 300),
        lambda content: content["labels"].update(task="a\0b"),
    ],
)
def test_records_that_hold_what_no_table_can_show_are_named(tmp_path, change):
    content = record_content(WHOLE[0])
    change(content)
    content["id"] = cell_id(content["configuration"])
    write_run_folder(tmp_path, WHOLE[1:])
    (tmp_path / f"{content['id']}.json").write_text(json.dumps(content))
    found = collection.read_collection(tmp_path)
    assert any(content["id"] in problem for problem in found.problems)
    assert len(found.records) == len(WHOLE) - 1


@pytest.mark.parametrize(
    ("measure", "change"),
    [
        ("robustness", lambda content: content["facts"].pop("attackers")),
        ("robustness", lambda content: content["history"][0].pop("round")),
        ("robustness", lambda content: content["history"][0].update(honest_trust="x")),
        ("robustness", lambda content: content["metrics"].update(accuracy=1.5)),
        ("robustness", lambda content: content["metrics"].update(test_loss=1e101)),
        ("robustness", lambda content: content["facts"].update(guarantee="x")),
        ("runtime", lambda content: content["facts"].pop("columns")),
        ("runtime", lambda content: content["facts"].update(updates_bytes=0)),
        ("runtime", lambda content: content["metrics"].pop("participant_spread")),
        ("runtime", lambda content: content["history"][0].pop("decryption")),
        ("communication", lambda content: content["facts"].pop("seconds")),
        ("communication", lambda content: content["facts"]["seconds"]["rounded"].pop("total")),
        ("communication", lambda content: content["configuration"]["measure"]["parameters"].update(upload=0)),
        ("reconstruction", lambda content: content["facts"].pop("adaptive")),
        ("reconstruction", lambda content: content["configuration"]["measure"]["parameters"].pop("rate")),
        ("reconstruction", lambda content: content["metrics"].update(pair_accuracy=7)),
        ("membership", lambda content: content["facts"].update(members=0)),
        ("membership", lambda content: content["facts"].update(knows=3)),
        ("property", lambda content: content["configuration"]["measure"]["parameters"].pop("share_with")),
        ("property", lambda content: content.update(status="failed")),
        ("robustness", lambda content: content.update(status="failed")),
    ],
)
def test_what_a_table_needs_is_checked_wherever_a_record_is_read(samples, tmp_path, measure, change):
    content = record_content(samples[measure][0])
    change(content)
    write_record(tmp_path, content)
    (file,) = tmp_path.glob("*.json")
    with pytest.raises(RecordError, match=f"{file.name} is no record of {measure}: "):
        read_record(file)
    with pytest.warns(UserWarning, match="it is left out"):
        assert load(tmp_path) == []
    with pytest.warns(UserWarning, match="its cell runs again"):
        assert Store(tmp_path).read(file.stem) is None
    with pytest.raises(RecordError, match=file.name):
        collection.read_collection(tmp_path)
    with pytest.raises(RecordError, match=file.name):
        show_record.record_text(file)


def test_numbers_in_text_are_no_numbers(samples, tmp_path):
    content = record_content(samples["robustness"][0])
    content["metrics"]["accuracy"] = "0.5"
    write_record(tmp_path, content)
    (file,) = tmp_path.glob("*.json")
    with pytest.raises(RecordError, match="is no record: metrics"):
        read_record(file)


def test_a_loss_beyond_all_bounds_is_shown_in_powers_of_ten(tmp_path):
    huge = [
        record.model_copy(update={"metrics": record.metrics | {"test_loss": (1 + record.configuration["seed"]) * 1e38}})
        for record in WHOLE
    ]
    folder = write_run_folder(tmp_path / "one", huge)
    where, found = leaderboard.generate(folder, tmp_path / "boards" / "own")
    assert found.problems == []
    text = (where / "README.md").read_text().replace("\\", "")
    assert "2.00e+38 ± 2.48e+38" in text
    text = run_report.report_files(build_board("x", huge), huge, no_arrays)["tables.md"].decode()
    assert "2.00e+38 ± 2.48e+38" in text.replace("\\", "")
    assert "2.00e+38" in (where / "index.html").read_text()


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    sound = WHOLE[0]
    for change in (
        {"metrics": sound.metrics | {"accuracy": 7.0}},
        {"facts": {}},
        {"facts": sound.facts | {"note": "\ud800"}},
        {"facts": sound.facts | {"count": 10**30}},
        {"labels": sound.labels | {"task": "x" * 300}},
    ):
        with pytest.raises(RecordError, match="the result is "):
            Store(tmp_path).write(sound.model_copy(update=change))
    assert list(tmp_path.iterdir()) == []


def test_a_cell_whose_result_could_not_be_read_again_fails_by_itself(tmp_path):
    (tmp_path / "odd.py").write_text(
        "import numpy as np\n"
        "from fflbench.plugin import Measure, Metric, Outcome, measure\n\n\n"
        '@measure("odd", title="Odd")\nclass Odd(Measure):\n    """Odd arrays."""\n\n    needs_data = False\n\n'
        '    metrics = (Metric(name="x", title="x", meaning="A number."),)\n\n    def run(self, context):\n'
        '        return Outcome({"x": 1.0}, [], {}, arrays={"x": np.array([{}], object)})\n'
    )
    (tmp_path / "own.toml").write_text(
        'tasks = ["digits-mlp"]\ndefenses = ["fedavg"]\nseeds = [0]\n[measure]\nuse = "odd"\n'
    )
    done = run_fflbench("run", "own.toml", "--plugin", "odd.py", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (record,) = load(tmp_path / "results")
    assert "something else than numbers" in record.reason


def test_labels_that_no_table_could_show_are_refused_before_anything_runs(tmp_path):
    for label in ("x" * 300, "a\\u0007b"):
        (tmp_path / "own.toml").write_text(
            f'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["{label}"]\nseeds = [0]\n'
            f'[defense."{label}"]\nuse = "fedavg"\n'
        )
        assert "the label" in refusal_message(run_fflbench("run", "own.toml", "--dry-run", cwd=tmp_path))


def test_parameters_that_no_record_could_hold_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "own.toml").write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["odd"]\nseeds = [0]\n[defense.odd]\ncount = [1, 2]\n'
    )
    (tmp_path / "odd.py").write_text(
        'from fflbench.plugin import rule\n\n\n@rule("odd", title="Odd")\n'
        'def odd(updates, count: int = 1):\n    """The mean."""\n    return updates.mean(0)\n'
    )
    options = ["--plugin", "odd.py", "--dry-run", "--set"]
    done = run_fflbench("run", "own.toml", *options, f"defense.odd.count={10**30}", cwd=tmp_path)
    assert "beyond what 64 bits can hold" in refusal_message(done)
    assert "no record under" in refusal_message(run_fflbench("show", "a" * 300, cwd=tmp_path))


def test_records_without_a_title_are_as_good_as_ever():
    content = record_content(WHOLE[0])
    del content["title"]
    assert Record.parse(json.dumps(content).encode()) == WHOLE[0]
    assert build_board("quick", WHOLE).title != "quick"


def test_cells_of_a_runs_own_tables_are_no_formulas(samples):
    for label in ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", " =1"):
        records = [
            record.model_copy(update={"labels": record.labels | {"task": label, "defense": label}})
            for record in [*samples["robustness"], *samples["runtime"]]
        ]
        text = run_report.report_files(build_board("x", records), records, no_arrays)["tables.csv"].decode()
        cells = [text for row in csv.reader(io.StringIO(text)) for text in row]
        assert f"'{label}" in cells
        assert not any(text.lstrip()[:1] in tuple("=+@\t\r") for text in cells)


def test_what_cannot_be_printed_stays_out_of_tables():
    evil = robustness_record(facts={"flags": ["\x1b]0;x\x07 =1\r\nmore"]})
    tables = build_board("own", [evil]).tables
    for found in tables:
        for text in (table_formats.to_markdown(found), table_formats.to_latex(found), table_formats.to_csv([found])):
            assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert any(flag for found in tables for row in found.rows for flag in row.flags)
