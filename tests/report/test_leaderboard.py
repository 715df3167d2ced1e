"""Leaderboards in folders: made from records alone, checked, verified, and with entries from outside."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fflbench.errors import RecordError
from fflbench.execution import verify as verifying
from fflbench.execution.run import run
from fflbench.records import evidence, packed
from fflbench.records.record import identify
from fflbench.report import leaderboard
from fflbench.report.board import board as board_of
from tests.report.folders import content_of, invoke, lines_of, with_digest, write_lines, written
from tests.report.synthetic import WHOLE, robust

COMMITTED = Path(__file__).parents[2] / "leaderboards"


# Folders


def contents_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_same_records_give_the_same_bytes_wherever_they_stand(tmp_path):
    source = written(tmp_path / "results" / "own", WHOLE)
    assert invoke("leaderboard", source, "--out", tmp_path / "a" / "own").exit_code == 0
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for room in ("tables", "figures"):
        shutil.rmtree(tmp_path / "b" / "own" / room)
    (tmp_path / "b" / "own" / "README.md").unlink()
    assert invoke("leaderboard", tmp_path / "b" / "own").exit_code == 0
    assert contents_of(tmp_path / "a") == contents_of(tmp_path / "b")
    assert "own/README.md" in (tmp_path / "b" / "README.md").read_text()


def test_tables_that_are_no_longer_made_go_away(tmp_path):
    board = tmp_path / "boards" / "own"
    invoke("leaderboard", written(tmp_path / "one", WHOLE), "--out", board)
    assert list((board / "tables").glob("*label-flipping.csv"))
    less = [told for told in WHOLE if told.labels["attack"] != "label-flipping"]
    invoke("leaderboard", written(tmp_path / "two", less), "--out", board)
    assert not list((board / "tables").glob("*label-flipping.csv"))
    assert len(lines_of(board)) == len(less)


def damaged(text, how):
    if how == "truncated":
        return text[: len(text) // 2]
    if how == "altered":
        return re.sub(r'"accuracy": ?0\.', '"accuracy":0.9', text)
    if how == "without digest":
        return re.sub(r',\s*"digest": ?"\w+"', "", text)
    if how == "twice":
        return f"{text}{text}"
    return re.sub(r'"schema_version": ?2', '"schema_version": 7', text)


@pytest.mark.parametrize("how", ["truncated", "altered", "foreign", "without digest", "twice"])
def test_damaged_lines_are_named_and_left_out(tmp_path, how):
    board = tmp_path / "boards" / "own"
    invoke("leaderboard", written(tmp_path / "one", WHOLE), "--out", board)
    lines = lines_of(board)
    harmed = damaged(lines[3].decode(), how).rstrip("\n")
    write_lines(board, [*lines[:3], f"{harmed}\n".encode(), *lines[4:]])
    evidence_before = (board / packed.FILE).read_bytes()
    found = invoke("leaderboard", board)
    assert found.exit_code == 1
    assert f"{packed.FILE}, line {5 if how == 'twice' else 4}," in found.output
    # Nothing else is lost, and what is damaged stays for whoever mends it.
    assert len(evidence.gather(board).records) == len(WHOLE) - (how != "twice")
    assert (board / packed.FILE).read_bytes() == evidence_before
    assert ("missing" in (board / "README.md").read_text()) == (how != "twice")
    assert invoke("leaderboard", board, "--allow-partial").exit_code == 0


@pytest.mark.parametrize("how", ["truncated", "foreign"])
def test_damaged_records_of_a_run_are_named_too(tmp_path, how):
    source = written(tmp_path / "one", WHOLE)
    victim = sorted(source.glob("*.json"))[3]
    victim.write_text(damaged(victim.read_text(), how))
    found = invoke("leaderboard", source, "--out", tmp_path / "boards" / "own")
    assert found.exit_code == 1
    assert victim.name in found.output


def test_folders_without_records_are_told_in_a_sentence(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        found = subprocess.run(
            [sys.executable, "-m", "fflbench", "leaderboard", str(folder)], capture_output=True, text=True
        )
        assert found.returncode == 2
        assert "Traceback" not in found.stderr
        assert "there is no" in found.stderr


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Real records of every measure, small ones."""
    folder = tmp_path_factory.mktemp("measured")
    suite = folder / "small.toml"
    suite.write_text("""
tasks = ["digits-mlp"]
attacks = ["analytic"]
defenses = ["fedavg", "ffl"]
seeds = [0, 1]
[measure]
use = "reconstruction"
observation = ["submission", "unmixed"]
groups = 1
[[also]]
attacks = ["partner-view"]
defenses = ["ffl"]
[also.measure]
use = "partner"
pairs = 1
[[also]]
defenses = ["median"]
[also.measure]
use = "runtime"
updates = 4
repeats = 1
[[also]]
defenses = ["fedavg"]
[also.measure]
use = "communication"
""")
    records = run(str(suite), out=folder / "results", workers=1)
    # Without their arrays, which would have to stand beside them.
    return [told.carrying(b"") for told in records]


# Verifying, and entries from outside


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A leaderboard of real cells."""
    folder = tmp_path_factory.mktemp("real")
    suite = folder / "tiny.toml"
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["fedavg", "median"]\nseeds = [0, 1, 2, 3, 4, 5]\n'
        "[overrides]\nrounds = 2\n"
    )
    run(str(suite), out=folder / "results", workers=1)
    leaderboard.generate(folder / "results" / "tiny", folder / "boards" / "tiny")
    return folder / "boards" / "tiny"


def test_cells_that_are_run_again_are_the_same_bits(real):
    verdicts, problems = verifying.verify(real, 2, 0, [])
    assert not problems
    assert [verdict.how for verdict in verdicts] == ["same bits"] * 2


def rewritten(board, tmp_path, change):
    """A copy of a leaderboard with its records changed, digests and all."""
    copy = tmp_path / "copy"
    shutil.copytree(board, copy)
    changed = [told.model_copy(update=change(told)) for told in evidence.gather(copy).records]
    write_lines(copy, [told.json_text().replace("\n", "").encode() + b"\n" for told in changed])
    return copy


def test_a_figure_that_was_made_up_is_found_out(real, tmp_path):
    copy = rewritten(real, tmp_path, lambda told: {"metrics": told.metrics | {"accuracy": 0.99}})
    assert [verdict.how for verdict in verifying.verify(copy, 1, 0, [])[0]] == ["different"]
    assert invoke("verify", copy, "--sample", 1).exit_code == 1


def elsewhere(told):
    return {"manifest": told.manifest | {"processor": "another"}}


def test_on_another_processor_a_sound_leaderboard_is_reproduced(real, tmp_path):
    board = rewritten(real, tmp_path, elsewhere)
    ((verdict,), _) = verifying.verify(board, 1, 0, [])
    assert verdict.how == "reproduced"
    assert "another processor" in verdict.why
    assert invoke("verify", board, "--sample", 1).exit_code == 0


def forged(real, tmp_path, harm):
    """A leaderboard of another processor, in which the metrics of the first cell that is verified were altered."""
    chosen = verifying._chosen(evidence.gather(real), 1, 0, reported=False)[0].id

    def change(told):
        return elsewhere(told) | {"metrics": told.metrics | (harm(told.metrics) if told.id == chosen else {})}

    return rewritten(real, tmp_path, change), chosen


@pytest.mark.parametrize(
    "harm",
    [
        *({"accuracy": 0.0}, {"attack_success_rate": 1.0}, {"diverged": True}, {"test_loss": 100.0}),
        {"source_accuracy": None},
    ],
)
def test_a_figure_made_up_for_one_cell_is_found_out_on_another_machine_too(real, tmp_path, harm):
    board, chosen = forged(real, tmp_path, lambda _: harm)
    ((verdict,), _) = verifying.verify(board, 1, 0, [])
    assert verdict.record.id == chosen
    assert verdict.how == "different"


@pytest.mark.parametrize("points", [0.1, 0.015])
@pytest.mark.parametrize("metric", ["accuracy", "source_accuracy"])
def test_a_figure_altered_by_some_points_does_not_pass_on_another_processor(real, tmp_path, metric, points):
    def altered(metrics):
        return {metric: metrics[metric] + (points if metrics[metric] < 0.5 else -points)}

    board, chosen = forged(real, tmp_path, altered)
    ((verdict,), _) = verifying.verify(board, 1, 0, [])
    assert verdict.record.id == chosen
    assert verdict.how in ("plausible, not reproduced", "different")
    assert metric in verdict.why
    assert invoke("verify", board, "--sample", 1).exit_code == 1


def test_a_figure_beyond_what_processors_differ_by_is_plausible_where_other_seeds_come_to_it(real, tmp_path):
    seen = evidence.gather(real).records
    spread = {told.id: told.configuration["seed"] % 3 / 10 for told in seen}

    def change(told):
        return elsewhere(told) | {
            "metrics": told.metrics | {"accuracy": told.metrics["accuracy"] / 2 + spread[told.id]}
        }

    verdicts = verifying.verify(rewritten(real, tmp_path, change), 3, 0, [])[0]
    assert "plausible, not reproduced" in [verdict.how for verdict in verdicts]
    assert not any(verdict.holds for verdict in verdicts)


def test_verify_tells_of_altered_evidence_too(real, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    first, *others = lines_of(copy)
    write_lines(copy, [damaged(first.decode(), "altered").encode(), *others])
    found = invoke("verify", copy, "--sample", 1)
    assert found.exit_code == 1
    assert "line 1, is damaged: it is not what its digest says" in found.output


PLUGIN = '''"""Their rule."""
from fflbench.registration import rule


@rule("their-rule", title="Their rule")
def their_rule(updates):
    """The plain mean."""
    return updates.mean(0)
'''


@pytest.fixture(scope="module")
def made_elsewhere(tmp_path_factory):
    """Records as outsiders make them: in a process of their own, with their plugin."""
    folder = tmp_path_factory.mktemp("elsewhere")
    plugin, suite = folder / "their_plugin.py", folder / "tiny.toml"
    plugin.write_text(PLUGIN)
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["their-rule"]\nseeds = [0, 1]\n'
        "[overrides]\nrounds = 2\n"
    )
    command = [sys.executable, "-m", "fflbench", "run", str(suite), "--plugin", str(plugin), "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "tiny", plugin


@pytest.fixture
def theirs(real, made_elsewhere, tmp_path):
    """An entry from outside, a leaderboard, and the plugin."""
    records, plugin = made_elsewhere
    entry = tmp_path / "entry"
    (entry / "records").mkdir(parents=True)
    for file in records.glob("*.json"):
        shutil.copy(file, entry / "records")
    told = {"name": "their-rule", "link": "https://example.org/rule", "citation": "They, 2026."}
    (entry / "entry.json").write_text(json.dumps(told))
    board = tmp_path / "boards" / "tiny"
    shutil.copytree(real, board)
    return entry, board, plugin


def test_an_entry_from_outside_is_marked_as_reported_until_it_is_run_again(theirs):
    entry, board, plugin = theirs
    assert invoke("leaderboard", board, "--add", entry).exit_code == 0
    assert "reported, not run again" in (board / "README.md").read_text()
    command = [sys.executable, "-m", "fflbench", "verify", str(board), "--plugin", str(plugin), "--sample", "1"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "same bits" in found.stdout
    assert invoke("leaderboard", board).exit_code == 0
    assert "1 cells run again" in (board / "README.md").read_text()


@pytest.mark.parametrize(
    "harm", ["altered", "without digest", "packed and not", "no entry", "bad link", "claims to be verified", "twice"]
)
def test_entries_that_do_not_hold_are_refused_and_leave_no_trace(theirs, harm):
    entry, board, _ = theirs
    told = json.loads((entry / "entry.json").read_text())
    file = next((entry / "records").glob("*.json"))
    if harm in ("altered", "without digest"):
        file.write_text(damaged(file.read_text(), harm))
    elif harm == "packed and not":
        (entry / packed.FILE).write_bytes(b"")
    elif harm == "no entry":
        (entry / "entry.json").unlink()
    elif harm == "bad link":
        (entry / "entry.json").write_text(json.dumps(told | {"link": "javascript:alert(1)"}))
    elif harm == "claims to be verified":
        (entry / "entry.json").write_text(json.dumps(told | {"verified": ["0" * 16]}))
    else:
        leaderboard.generate(board, None, add=entry)
    before = contents_of(board)
    with pytest.raises(RecordError):
        leaderboard.generate(board, None, add=entry)
    assert contents_of(board) == before


def test_committed_leaderboards_come_out_of_their_records_again():
    found = invoke("leaderboard", "--all", COMMITTED, "--check")
    assert found.exit_code == 0, found.output


def test_every_figure_names_the_records_behind_it(measured):
    records = [*WHOLE, *measured]
    known = {told.id: told for told in records}
    board = board_of("own", records)
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
def test_names_of_tasks_are_only_names(tmp_path, measured, task):
    evil = [
        robust(task=task, labels={"defense": "<script>alert(1)</script>"}),
        robust(task=task, attack="gaussian-noise"),
    ]
    # The same task has costs: every table's name is made of it.
    evil += [
        told.model_copy(update={"labels": told.labels | {"task": task}})
        for told in measured
        if told.labels["measure"].startswith(("runtime", "communication"))
    ]
    out = tmp_path / "a" / "b" / "c" / "boards" / "own"
    found = invoke("leaderboard", written(tmp_path / "a" / "one", evil), "--out", out)
    assert found.exit_code == 0, found.output
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert all(name.startswith(("a/one/", "a/b/c/boards/")) for name in made)
    assert "<script>" not in (out / "README.md").read_text()
    for file in (out / "tables").glob("*.csv"):
        assert not any(line.startswith(("=", "+", "-", "@")) for line in file.read_text().splitlines())


def test_a_suite_called_like_a_path_stays_where_leaderboards_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = robust().model_copy(update={"suite": "../../evil"})
    assert invoke("leaderboard", written(tmp_path / "one", [evil])).exit_code == 0
    assert (tmp_path / "leaderboards" / "evil" / "README.md").exists()


def test_what_is_no_leaderboard_is_left_alone(tmp_path):
    source = written(tmp_path / "one", WHOLE)
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


@pytest.mark.parametrize("harm", ["our name", "their seed", "their task", "another aim"])
def test_an_entry_may_add_a_defense_and_change_nothing_else(theirs, harm):
    entry, board, _ = theirs
    (file, *_) = sorted((entry / "records").glob("*.json"))
    told = json.loads(file.read_text())
    if harm == "our name":
        told["labels"]["defense"] = "fedavg"
    elif harm == "their seed":
        told["configuration"]["seed"] = 99
    elif harm == "their task":
        told["configuration"]["task"]["parameters"]["rounds"] = 1
    else:
        told["facts"]["targeted"] = True
    told["id"] = identify(told["configuration"])
    file.unlink()
    (file.parent / f"{told['id']}.json").write_text(with_digest(told))
    with pytest.raises(RecordError, match="the entry is not taken"):
        leaderboard.generate(board, None, add=entry)


def test_an_entry_goes_into_a_leaderboard_and_not_into_results(theirs, tmp_path):
    entry, _, _ = theirs
    with pytest.raises(RecordError, match="is no leaderboard"):
        leaderboard.generate(written(tmp_path / "one", WHOLE), None, add=entry)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["history"][0].update(honest_trust="abc"),
        lambda told: told["configuration"].update(deviation={"name": "plain", "parameters": {}}),
        lambda told: told["configuration"]["defense"].pop("rule"),
        lambda told: told.update(shared_by={"median": {}}),
        lambda told: told["configuration"].update(suite=3),
        lambda told: told["configuration"].update(measure={"name": "runtime", "parameters": {}}),
        lambda told: told["metrics"].update(accuracy=1e200),
        lambda told: told["labels"].update(task="a" * 300),
        lambda told: told["labels"].update(task="a\0b"),
    ],
)
def test_records_that_hold_what_no_table_can_show_are_named(tmp_path, change):
    told = content_of(WHOLE[0])
    change(told)
    told["id"] = identify(told["configuration"])
    written(tmp_path, WHOLE[1:])
    (tmp_path / f"{told['id']}.json").write_text(json.dumps(told))
    found = evidence.gather(tmp_path)
    assert any(told["id"] in problem for problem in found.problems)
    assert len(found.records) == len(WHOLE) - 1


def test_a_threat_model_leaves_out_who_knows_more(tmp_path, measured):
    helped = [
        told.model_copy(update={"facts": told.facts | {"knows": ["server view", "who exchanged with whom"]}})
        if "unmixed" in told.labels["measure"]
        else told
        for told in measured
    ]
    source = written(tmp_path / "one", [*WHOLE, *helped])
    alone = invoke("leaderboard", source, "--out", tmp_path / "alone", "--knows", "own data", "--knows", "server view")
    assert alone.exit_code == 0, alone.output
    assert invoke("leaderboard", source, "--out", tmp_path / "all").exit_code == 0
    for name in ("alone", "all"):
        tables = "".join(file.read_text() for file in (tmp_path / name / "tables").glob("*reconstruction*.csv"))
        assert ("unmixed" in tables) == (name == "all")
    assert "Attackers who must know more" in (tmp_path / "alone" / "README.md").read_text()
    assert invoke("leaderboard", source, "--out", tmp_path / "x", "--knows", "everything").exit_code != 0
