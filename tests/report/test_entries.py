"""Entries of a leaderboard from outside: taken as a whole, or refused in a sentence with nothing changed."""

import csv
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fflbench.errors import RecordError
from fflbench.records import collection, jsonl_file, npz_file
from fflbench.records.record import cell_id
from fflbench.records.store import Store
from fflbench.report import leaderboard, page
from tests.report.record_folders import (
    damage_record_text,
    folder_content,
    invoke_command,
    record_content,
    record_text_with_digest,
    refusal_message,
    run_fflbench,
    write_record,
    write_run_folder,
)
from tests.report.synthetic_records import WHOLE


def share_reconstructions(board, entry, name):
    """Make an entry of a rule that shares the reconstructions of fedavg."""
    for file in (entry / "records").iterdir():
        file.unlink()
    (entry / "entry.json").write_text(json.dumps({"name": name}))
    found = collection.read_collection(board)
    attacked = next(record for record in found.records if record.labels.get("attack") == "none")
    rebuilt = next(record for record in found.records if record.measure == "reconstruction")
    theirs = record_content(attacked)
    theirs["configuration"]["defense"]["rule"]["name"] = theirs["labels"]["defense"] = name
    write_record(entry / "records", theirs)
    shared = record_content(rebuilt)
    shared["labels"]["defense"] = name
    write_record(entry / "records", shared, npz_file.pack_arrays(found.arrays(rebuilt)))
    return found


def test_an_entry_of_a_rule_shares_the_cells_that_do_not_depend_on_rules(board, entry):
    found = share_reconstructions(board, entry, "their-rule")
    ours = (board / jsonl_file.FILE).read_bytes()
    leaderboard.generate(board, None, new_entry=entry)
    assert (board / jsonl_file.FILE).read_bytes() == ours
    with (board / "tables" / "digits-mlp-reconstruction-analytic.csv").open() as file:
        figures = {line["defense"]: line["mean"] for line in csv.DictReader(file) if line["column"] == "psnr"}
    assert set(figures) == {"fedavg", "their-rule"}
    assert figures["fedavg"] == figures["their-rule"]
    before = folder_content(board.parent)
    leaderboard.generate(board, None)
    assert folder_content(board.parent) == before
    assert len(collection.read_collection(board).records) == len(found.records) + 1
    assert not collection.read_collection(board).problems


def test_the_order_in_which_entries_were_added_leaves_no_trace(board, entry):
    for name in ("their-rule", "another-rule"):
        share_reconstructions(board, entry, name)
        leaderboard.generate(board, None, new_entry=entry)
    before = folder_content(board.parent)
    leaderboard.generate(board, None)
    assert folder_content(board.parent) == before


def test_an_entry_cannot_share_a_cell_under_a_name_of_ours(board, entry):
    found = collection.read_collection(board)
    rebuilt = next(record for record in found.records if record.measure == "reconstruction")
    shared = record_content(rebuilt) | {"shared_by": {"median": {}}}
    shared["labels"] = rebuilt.labels | {"defense": "their-rule"}
    write_record(entry / "records", shared, npz_file.pack_arrays(found.arrays(rebuilt)))
    with pytest.raises(RecordError, match='calls its defense "median", a name that is taken'):
        leaderboard.generate(board, None, new_entry=entry)


def test_a_sound_entry_is_taken_with_its_arrays(board, entry):
    leaderboard.generate(board, None, new_entry=entry)
    assert "their-rule" in (board / "README.md").read_text()
    before = folder_content(board.parent)
    leaderboard.generate(board, None)
    assert folder_content(board.parent) == before
    assert collection.read_collection(board).problems == []


def replace_in_records(old, new):
    def harm(entry):
        for file in (entry / "records").glob("*.json"):
            content = json.loads(file.read_text().replace(old, new))
            # Whoever alters a record can make its digest anew.
            file.write_text(record_text_with_digest(content).replace("Infinity", "1e999"))

    return harm


def replace_arrays(make):
    def harm(entry):
        (file,) = (entry / "records").glob("*.npz")
        packed = make(npz_file.unpack_arrays(file.read_bytes()))
        content = json.loads(file.with_suffix(".json").read_text())
        write_record(entry / "records", content, packed)

    return harm


def encrypted_archive(arrays):
    content = bytearray(npz_file.pack_arrays(arrays))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(signature, start + 1)) >= 0:
            content[start + place] |= 1
    return bytes(content)


def empty_archive(_):
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").close()
    return stream.getvalue()


HARMS = {
    "a number too large": replace_in_records('"test_loss": 0.', '"test_loss": 1e999, "x": 0.'),
    "a lone surrogate": replace_in_records('"suite": "small"', '"suite": "\\ud800"'),
    "a label with a lone surrogate": replace_in_records('"attack": "none"', '"attack": "\\udc00"'),
    "no originals": replace_arrays(lambda found: npz_file.pack_arrays({"found": found["found"]})),
    "another shape": replace_arrays(
        lambda found: npz_file.pack_arrays(found | {"originals": found["originals"][:, :1]})
    ),
    "other people": replace_arrays(
        lambda found: npz_file.pack_arrays({name: each[:, :1] for name, each in found.items()})
    ),
    "no numbers": replace_arrays(
        lambda found: npz_file.pack_arrays({name: each[..., :0] for name, each in found.items()})
    ),
    "text": replace_arrays(
        lambda found: npz_file.pack_arrays({name: each.astype("U8") for name, each in found.items()})
    ),
    "encrypted arrays": replace_arrays(encrypted_archive),
    "an empty archive": replace_arrays(empty_archive),
    "no archive": replace_arrays(lambda _: b"nothing"),
    "no facts": replace_in_records('"adaptive"', '"adaptif"'),
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_entry_that_would_break_the_leaderboard_changes_no_byte_of_it(board, entry, harm):
    HARMS[harm](entry)
    before = folder_content(board.parent)
    assert "the entry is not taken" in refusal_message(run_fflbench("leaderboard", board, "--add", entry))
    assert folder_content(board.parent) == before


def test_an_entry_whose_tables_cannot_be_made_changes_no_byte(board, entry, monkeypatch):
    def fails(*_, **__):
        raise RecordError("no page can be made")

    before = folder_content(board.parent)
    monkeypatch.setattr(page, "render_leaderboard", fails)
    with pytest.raises(RecordError, match="no page"):
        leaderboard.generate(board, None, new_entry=entry)
    assert folder_content(board.parent) == before


def test_an_entry_may_be_packed(board, entry):
    store = Store(entry / "records")
    records = [store.read(file.stem) for file in sorted((entry / "records").glob("*.json"))]
    (entry / jsonl_file.FILE).write_bytes(jsonl_file.pack_records(records[::-1], entry / "none"))
    (entry / "arrays").mkdir()
    for file in (entry / "records").glob("*.npz"):
        file.rename(entry / "arrays" / file.name)
    shutil.rmtree(entry / "records")
    leaderboard.generate(board, None, new_entry=entry)
    found = collection.read_collection(board)
    assert found.problems == []
    assert set(found.reported) == {record.id for record in records}
    theirs = board / "entries" / "their-rule"
    assert {str(file.relative_to(theirs)) for file in theirs.rglob("*") if file.is_file()} == {
        *("entry.json", jsonl_file.FILE),
        *(f"arrays/{record.id}.npz" for record in records if record.arrays),
    }
    assert invoke_command("leaderboard", board, "--check").exit_code == 0


@pytest.mark.parametrize("others", [True, False])
def test_an_entry_is_there_as_a_whole_or_not_at_all_whenever_the_command_is_killed(board, entry, others, monkeypatch):
    if others:
        (board / "entries" / "other").mkdir(parents=True)
        (board / "entries" / "other" / "entry.json").write_text("{}")
    replace, into, seen = Path.replace, board / "entries" / "their-rule", []

    def watched(self, target):
        seen.append(into.exists())
        done = replace(self, target)
        assert not into.exists() or ((into / "entry.json").exists() and len([*into.rglob("*")]) == 4)
        return done

    monkeypatch.setattr(Path, "replace", watched)
    leaderboard.generate(board, None, new_entry=entry)
    monkeypatch.undo()
    assert into.is_dir()
    assert len(seen) > 3
    # It comes last.
    assert not any(seen)


def test_an_entry_that_was_left_half_written_is_replaced(board, entry):
    half = board / "entries" / "their-rule"
    (half / "arrays").mkdir(parents=True)
    (half / jsonl_file.FILE).write_text("{}")
    (half / "arrays" / "0123456789abcdef.npz").write_text("")
    leaderboard.generate(board, None, new_entry=entry)
    assert collection.read_collection(board).problems == []
    assert "their-rule" in (board / "README.md").read_text()
    assert not (half / "arrays" / "0123456789abcdef.npz").exists()
    with pytest.raises(RecordError, match="a name that is taken"):
        leaderboard.generate(board, None, new_entry=entry)


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
        'tasks = ["digits-mlp"]\nattacks = ["label-flipping"]\ndefenses = ["their-rule"]\nseeds = [0, 1]\n'
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
    content = {"name": "their-rule", "link": "https://example.org/rule", "citation": "They, 2026."}
    (entry / "entry.json").write_text(json.dumps(content))
    board = tmp_path / "boards" / "tiny"
    shutil.copytree(real, board)
    return entry, board, plugin


def test_an_entry_from_outside_is_marked_as_reported_until_it_is_run_again(theirs):
    entry, board, plugin = theirs
    assert invoke_command("leaderboard", board, "--add", entry).exit_code == 0
    assert "reported, not run again" in (board / "README.md").read_text()
    command = [sys.executable, "-m", "fflbench", "verify", str(board), "--plugin", str(plugin), "--sample", "1"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "same bits" in found.stdout
    assert "1 cells run again" in (board / "README.md").read_text()
    assert invoke_command("leaderboard", board, "--check").exit_code == 0


@pytest.mark.parametrize(
    "harm", ["altered", "without digest", "packed and not", "no entry", "bad link", "claims to be verified", "twice"]
)
def test_entries_that_do_not_hold_are_refused_and_leave_no_trace(theirs, harm):
    entry, board, _ = theirs
    content = json.loads((entry / "entry.json").read_text())
    file = next((entry / "records").glob("*.json"))
    if harm in ("altered", "without digest"):
        file.write_text(damage_record_text(file.read_text(), harm))
    elif harm == "packed and not":
        (entry / jsonl_file.FILE).write_bytes(b"")
    elif harm == "no entry":
        (entry / "entry.json").unlink()
    elif harm == "bad link":
        (entry / "entry.json").write_text(json.dumps(content | {"link": "javascript:alert(1)"}))
    elif harm == "claims to be verified":
        (entry / "entry.json").write_text(json.dumps(content | {"verified": ["0" * 16]}))
    else:
        leaderboard.generate(board, None, new_entry=entry)
    before = folder_content(board)
    with pytest.raises(RecordError):
        leaderboard.generate(board, None, new_entry=entry)
    assert folder_content(board) == before


@pytest.mark.parametrize("harm", ["our name", "their seed", "their task", "another aim"])
def test_an_entry_may_add_a_defense_and_change_nothing_else(theirs, harm):
    entry, board, _ = theirs
    (file, *_) = sorted((entry / "records").glob("*.json"))
    content = json.loads(file.read_text())
    if harm == "our name":
        content["labels"]["defense"] = "fedavg"
    elif harm == "their seed":
        content["configuration"]["seed"] = 99
    elif harm == "their task":
        content["configuration"]["task"]["parameters"]["rounds"] = 1
    else:
        content["facts"]["targeted"] = False
    content["id"] = cell_id(content["configuration"])
    file.unlink()
    (file.parent / f"{content['id']}.json").write_text(record_text_with_digest(content))
    with pytest.raises(RecordError, match="the entry is not taken"):
        leaderboard.generate(board, None, new_entry=entry)


def test_an_entry_goes_into_a_leaderboard_and_not_into_results(theirs, tmp_path):
    entry, _, _ = theirs
    with pytest.raises(RecordError, match="is no leaderboard"):
        leaderboard.generate(write_run_folder(tmp_path / "one", WHOLE), None, new_entry=entry)
