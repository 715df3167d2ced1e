"""Leaderboards in folders: made from records alone, and checked against them."""

import shutil
import subprocess
import sys

import pytest

from fflbench.errors import RecordError
from fflbench.records import collection, jsonl_file
from fflbench.report import leaderboard
from fflbench.report.all_tables import build_board
from tests.report.record_folders import (
    damage_record_text,
    folder_content,
    invoke_command,
    read_record_lines,
    run_fflbench,
    write_record_lines,
    write_run_folder,
)
from tests.report.synthetic_records import WHOLE, reconstruction_record, robustness_record


def test_the_same_records_give_the_same_bytes_wherever_they_stand(tmp_path):
    source = write_run_folder(tmp_path / "results" / "own", WHOLE)
    assert invoke_command("leaderboard", source, "--out", tmp_path / "a" / "own").exit_code == 0
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for room in ("tables", "figures"):
        shutil.rmtree(tmp_path / "b" / "own" / room)
    (tmp_path / "b" / "own" / "README.md").unlink()
    assert invoke_command("leaderboard", tmp_path / "b" / "own").exit_code == 0
    assert folder_content(tmp_path / "a") == folder_content(tmp_path / "b")
    assert "own/README.md" in (tmp_path / "b" / "README.md").read_text()


def test_tables_that_are_no_longer_made_go_away(tmp_path):
    board = tmp_path / "boards" / "own"
    invoke_command("leaderboard", write_run_folder(tmp_path / "one", WHOLE), "--out", board)
    assert list((board / "tables").glob("*label-flipping.csv"))
    less = [record for record in WHOLE if record.labels["attack"] != "label-flipping"]
    invoke_command("leaderboard", write_run_folder(tmp_path / "two", less), "--out", board)
    assert not list((board / "tables").glob("*label-flipping.csv"))
    assert len(read_record_lines(board)) == len(less)


@pytest.mark.parametrize("how", ["truncated", "altered", "foreign", "without digest", "twice"])
def test_damaged_lines_are_named_and_left_out(tmp_path, how):
    board = tmp_path / "boards" / "own"
    invoke_command("leaderboard", write_run_folder(tmp_path / "one", WHOLE), "--out", board)
    lines = read_record_lines(board)
    harmed = damage_record_text(lines[3].decode(), how).rstrip("\n")
    write_record_lines(board, [*lines[:3], f"{harmed}\n".encode(), *lines[4:]])
    evidence_before = (board / jsonl_file.FILE).read_bytes()
    found = invoke_command("leaderboard", board)
    assert found.exit_code == 1
    assert f"{jsonl_file.FILE}, line {5 if how == 'twice' else 4}," in found.output
    # Nothing else is lost, and what is damaged stays for whoever mends it.
    assert len(collection.read_collection(board).records) == len(WHOLE) - (how != "twice")
    assert (board / jsonl_file.FILE).read_bytes() == evidence_before
    assert ("missing" in (board / "README.md").read_text()) == (how != "twice")
    assert invoke_command("leaderboard", board, "--allow-partial").exit_code == 0


@pytest.mark.parametrize("how", ["truncated", "foreign"])
def test_damaged_records_of_a_run_are_named_too(tmp_path, how):
    source = write_run_folder(tmp_path / "one", WHOLE)
    victim = sorted(source.glob("*.json"))[3]
    victim.write_text(damage_record_text(victim.read_text(), how))
    found = invoke_command("leaderboard", source, "--out", tmp_path / "boards" / "own")
    assert found.exit_code == 1
    assert victim.name in found.output


def test_folders_without_records_are_refused_in_a_sentence(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        found = subprocess.run(
            [sys.executable, "-m", "fflbench", "leaderboard", str(folder)], capture_output=True, text=True
        )
        assert found.returncode == 2
        assert "Traceback" not in found.stderr
        assert "there is no" in found.stderr


def test_every_figure_names_the_records_behind_it(samples):
    records = [*WHOLE, *(record for of_measure in samples.values() for record in of_measure)]
    known = {record.id: record for record in records}
    board = build_board("own", records)
    figures = [(table, row, cell) for table in board.tables for row in table.rows for cell in row.cells]
    assert figures
    for table, row, cell in figures:
        # What was computed without a run says so.
        if cell.mean is not None and "(computed)" not in row.label:
            assert cell.records, (table.name, row.label)
            assert any(known[name].labels["defense"].split(",")[0] in row.label for name in cell.records)


@pytest.mark.parametrize(
    "task", ["../../evil", "x/../../../../PWNED/f", "/etc/evil", "..", "$\\bad{$", "=HYPERLINK(1)", "[x]", "a" * 119]
)
def test_names_of_tasks_are_only_names(tmp_path, samples, task):
    evil = [
        robustness_record(task=task, labels={"defense": "<script>alert(1)</script>"}),
        robustness_record(task=task, attack="gaussian-noise"),
    ]
    # The same task has costs: every table's name is made of it.
    evil += [
        record.model_copy(update={"labels": record.labels | {"task": task}})
        for record in [*samples["runtime"], *samples["communication"]]
    ]
    out = tmp_path / "a" / "b" / "c" / "boards" / "own"
    found = invoke_command("leaderboard", write_run_folder(tmp_path / "a" / "one", evil), "--out", out)
    assert found.exit_code == 0, found.output
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert all(name.startswith(("a/one/", "a/b/c/boards/")) for name in made)
    assert "<script>" not in (out / "README.md").read_text()
    for file in (out / "tables").glob("*.csv"):
        assert not any(line.startswith(("=", "+", "-", "@")) for line in file.read_text().splitlines())


def test_a_suite_called_like_a_path_stays_where_leaderboards_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = robustness_record().model_copy(update={"suite": "../../evil"})
    assert invoke_command("leaderboard", write_run_folder(tmp_path / "one", [evil])).exit_code == 0
    assert (tmp_path / "leaderboards" / "evil" / "README.md").exists()


def test_what_is_no_leaderboard_is_left_alone(tmp_path):
    source = write_run_folder(tmp_path / "one", WHOLE)
    thesis = tmp_path / "thesis" / "figures" / "mine.pdf"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine")
    with pytest.raises(RecordError, match="is no leaderboard"):
        leaderboard.generate(source, tmp_path / "thesis")
    (tmp_path / "README.md").write_text("# My project")
    board, _ = leaderboard.generate(source, tmp_path / "board")
    (board / "arrays").mkdir()
    (board / "arrays" / "mine.csv").write_text("mine")
    (board / "figures" / "mine.pdf").write_text("mine")
    leaderboard.generate(source, board)
    assert (tmp_path / "README.md").read_text() == "# My project"
    assert (board / "arrays" / "mine.csv").exists()
    assert (board / "figures" / "mine.pdf").exists()


def test_a_threat_model_leaves_out_attackers_who_know_more(tmp_path):
    helped = [
        reconstruction_record(name, observation=observation, facts={"knows": ["server view", *knows]})
        for name in ("fedavg", "ffl")
        for observation, knows in (("submission", []), ("unmixed", ["who exchanged with whom"]))
    ]
    source = write_run_folder(tmp_path / "one", [*WHOLE, *helped])
    alone = invoke_command(
        "leaderboard", source, "--out", tmp_path / "alone", "--knows", "own data", "--knows", "server view"
    )
    assert alone.exit_code == 0, alone.output
    assert invoke_command("leaderboard", source, "--out", tmp_path / "all").exit_code == 0
    for name in ("alone", "all"):
        tables = "".join(file.read_text() for file in (tmp_path / name / "tables").glob("*reconstruction*.csv"))
        assert ("unmixed" in tables) == (name == "all")
    assert "Attackers who must know more" in (tmp_path / "alone" / "README.md").read_text()
    assert invoke_command("leaderboard", source, "--out", tmp_path / "x", "--knows", "everything").exit_code != 0


def test_pages_show_the_title_of_a_suite_and_the_plugins_that_its_commands_need(tmp_path):
    (tmp_path / "their_plugin.py").write_text(
        'from fflbench.plugin import rule\n\n\n@rule("their-rule", title="Theirs")\ndef rule(updates):\n'
        '    """The mean."""\n    return updates.mean(0)\n'
    )
    (tmp_path / "own.toml").write_text(
        'title = "Ours against theirs"\ntasks = ["digits-mlp"]\nattacks = ["none"]\n'
        'defenses = ["fedavg", "their-rule"]\nseeds = [0]\n[overrides]\nrounds = 1\n'
    )
    plugin = tmp_path / "their_plugin.py"
    assert run_fflbench("run", "own.toml", "--plugin", plugin, cwd=tmp_path).returncode == 0
    assert run_fflbench("leaderboard", "results/own", cwd=tmp_path).returncode == 0
    for file in ("README.md", "index.html"):
        text = (tmp_path / "leaderboards" / "own" / file).read_text()
        assert "Ours against theirs" in text
        assert "fflbench run own.toml --plugin their_plugin.py" in text
        assert "fflbench verify leaderboards/own --sample 3 --plugin their_plugin.py" in text
        assert str(tmp_path) not in text
    # The same from the leaderboard alone.
    before = folder_content(tmp_path / "leaderboards")
    assert run_fflbench("leaderboard", "leaderboards/own", cwd=tmp_path).returncode == 0
    assert folder_content(tmp_path / "leaderboards") == before


def test_two_tasks_whose_names_make_one_file_name_keep_both_figures(tmp_path):
    records = [
        record
        for task in ("a b", "a-b")
        for record in (robustness_record(task=task), robustness_record(task=task, attack="gaussian-noise"))
    ]
    where, _ = leaderboard.generate(write_run_folder(tmp_path / "one", records), tmp_path / "boards" / "own")
    names = {file.stem for file in (where / "figures").glob("*-a-b*.csv")}
    assert names
    assert {name for name in names if name.endswith("-2")} == {f"{name}-2" for name in names if not name.endswith("-2")}


def test_file_names_of_many_letters_are_cut_by_bytes(tmp_path):
    label = "語" * 100
    records = [
        robustness_record(task=label),
        robustness_record(task=label, attack="gaussian-noise", labels={"defense": label}),
    ]
    where, _ = leaderboard.generate(write_run_folder(tmp_path / "one", records), tmp_path / "boards" / "own")
    made = [file.name for file in where.rglob("*") if file.is_file()]
    assert max(len(name.encode()) for name in made) < 150
