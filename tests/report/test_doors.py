"""Leaderboards from strangers, links, full disks and altered records: refused in a sentence, with nothing changed."""

import csv
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from fflbench.errors import FflbenchError, RecordError
from fflbench.execution.run import run
from fflbench.records import arrays, evidence, load, packed
from fflbench.records.folder import STAGE, replace_files
from fflbench.records.record import Record, identify
from fflbench.records.store import Store, read
from fflbench.report import formats, leaderboard, page, run_report, show
from fflbench.report.board import board as board_of
from fflbench.report.commands import commands
from fflbench.report.figures import figures
from tests.report.folders import content_of, invoke, with_digest, written
from tests.report.synthetic import WHOLE, no_arrays, robust


def fflbench(*arguments, **settings):
    command = [sys.executable, "-m", "fflbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **settings)


def refused(done):
    """One sentence on standard error, exit code 2."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("fflbench: ")]
    return line


def tree(folder):
    """Everything in a folder: names, kinds and contents."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A leaderboard with robustness and reconstructions."""
    folder = tmp_path_factory.mktemp("made")
    suite = folder / "small.toml"
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["analytic"]\ndefenses = ["fedavg"]\nseeds = [0]\n'
        '[measure]\nuse = "reconstruction"\nobservation = "submission"\ngroups = 1\n'
    )
    run(str(suite), out=folder / "results", workers=1)
    written(folder / "results" / "small", [told.model_copy(update={"suite": "small"}) for told in WHOLE])
    leaderboard.generate(folder / "results" / "small", folder / "boards" / "small")
    return folder / "boards"


@pytest.fixture
def board(made, tmp_path):
    shutil.copytree(made, tmp_path / "boards")
    return tmp_path / "boards" / "small"


@pytest.fixture
def entry(board, tmp_path):
    """An entry from outside with one robustness cell and one reconstruction."""
    folder = tmp_path / "entry"
    (folder / "records").mkdir(parents=True)
    (folder / "entry.json").write_text(
        json.dumps({"name": "their-rule", "link": "https://example.org/rule", "citation": "They, 2026."})
    )
    found = evidence.gather(board)
    attacked = next(told for told in found.records if told.labels.get("attack") == "none")
    rebuilt = next(told for told in found.records if told.configuration["measure"]["name"] == "reconstruction")
    for told in (attacked, rebuilt):
        content = content_of(told)
        content["configuration"]["defense"]["transport"]["name"] = content["labels"]["defense"] = "their-rule"
        write_record(folder / "records", content, arrays.pack(found.arrays(told)))
    return folder


def write_record(folder, content, of_arrays=b""):
    content["id"] = identify(content["configuration"])
    content["arrays"] = arrays.digest(of_arrays)
    (folder / f"{content['id']}.json").write_text(with_digest(content))
    if of_arrays:
        (folder / f"{content['id']}.npz").write_bytes(of_arrays)


def test_an_entry_of_a_rule_shares_the_cells_that_do_not_depend_on_rules(board, entry):
    for file in (entry / "records").iterdir():
        file.unlink()
    found = evidence.gather(board)
    attacked = next(told for told in found.records if told.labels.get("attack") == "none")
    rebuilt = next(told for told in found.records if told.measure == "reconstruction")
    theirs = content_of(attacked)
    theirs["configuration"]["defense"]["rule"]["name"] = theirs["labels"]["defense"] = "their-rule"
    write_record(entry / "records", theirs)
    shared = content_of(rebuilt)
    shared["labels"]["defense"] = "their-rule"
    write_record(entry / "records", shared, arrays.pack(found.arrays(rebuilt)))
    ours = (board / packed.FILE).read_bytes()
    leaderboard.generate(board, None, add=entry)
    assert (board / packed.FILE).read_bytes() == ours
    with (board / "tables" / "digits-mlp-reconstruction-analytic.csv").open() as file:
        figures = {line["defense"]: line["mean"] for line in csv.DictReader(file) if line["column"] == "psnr"}
    assert set(figures) == {"fedavg", "their-rule"}
    assert figures["fedavg"] == figures["their-rule"]
    before = tree(board.parent)
    leaderboard.generate(board, None)
    assert tree(board.parent) == before
    assert len(evidence.gather(board).records) == len(found.records) + 1
    assert not evidence.gather(board).problems


def test_an_entry_cannot_share_a_cell_under_a_name_of_ours(board, entry):
    found = evidence.gather(board)
    rebuilt = next(told for told in found.records if told.measure == "reconstruction")
    shared = content_of(rebuilt) | {"shared_by": {"median": {}}}
    shared["labels"] = rebuilt.labels | {"defense": "their-rule"}
    write_record(entry / "records", shared, arrays.pack(found.arrays(rebuilt)))
    with pytest.raises(RecordError, match='calls its defense "median", a name that is taken'):
        leaderboard.generate(board, None, add=entry)


def test_a_sound_entry_is_taken_with_its_arrays(board, entry):
    leaderboard.generate(board, None, add=entry)
    assert "their-rule" in (board / "README.md").read_text()
    before = tree(board.parent)
    leaderboard.generate(board, None)
    assert tree(board.parent) == before
    assert evidence.gather(board).problems == []


def in_the_text(old, new):
    def harm(entry):
        for file in (entry / "records").glob("*.json"):
            content = json.loads(file.read_text().replace(old, new))
            # Whoever alters a record can make its digest anew.
            file.write_text(with_digest(content).replace("Infinity", "1e999"))

    return harm


def with_arrays(make):
    def harm(entry):
        (file,) = (entry / "records").glob("*.npz")
        packed = make(arrays.unpack(file.read_bytes()))
        content = json.loads(file.with_suffix(".json").read_text())
        write_record(entry / "records", content, packed)

    return harm


def encrypted(found):
    content = bytearray(arrays.pack(found))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(signature, start + 1)) >= 0:
            content[start + place] |= 1
    return bytes(content)


def no_members(_):
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").close()
    return stream.getvalue()


HARMS = {
    "a number too large": in_the_text('"test_loss": 0.', '"test_loss": 1e999, "x": 0.'),
    "a lone surrogate": in_the_text('"suite": "small"', '"suite": "\\ud800"'),
    "a label with a lone surrogate": in_the_text('"attack": "none"', '"attack": "\\udc00"'),
    "no originals": with_arrays(lambda found: arrays.pack({"found": found["found"]})),
    "another shape": with_arrays(lambda found: arrays.pack(found | {"originals": found["originals"][:, :1]})),
    "other people": with_arrays(lambda found: arrays.pack({name: each[:, :1] for name, each in found.items()})),
    "no numbers": with_arrays(lambda found: arrays.pack({name: each[..., :0] for name, each in found.items()})),
    "text": with_arrays(lambda found: arrays.pack({name: each.astype("U8") for name, each in found.items()})),
    "encrypted arrays": with_arrays(encrypted),
    "an empty archive": with_arrays(no_members),
    "no archive": with_arrays(lambda _: b"nothing"),
    "no facts": in_the_text('"adaptive"', '"adaptif"'),
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_entry_that_would_break_the_leaderboard_changes_no_byte_of_it(board, entry, harm):
    HARMS[harm](entry)
    before = tree(board.parent)
    assert "the entry is not taken" in refused(fflbench("leaderboard", board, "--add", entry))
    assert tree(board.parent) == before


def test_an_entry_whose_tables_cannot_be_made_changes_no_byte(board, entry, monkeypatch):
    def fails(*_, **__):
        raise RecordError("no page can be made")

    before = tree(board.parent)
    monkeypatch.setattr(page, "render", fails)
    with pytest.raises(RecordError, match="no page"):
        leaderboard.generate(board, None, add=entry)
    assert tree(board.parent) == before


def test_an_entry_may_be_packed(board, entry):
    store = Store(entry / "records")
    records = [store.read(file.stem) for file in sorted((entry / "records").glob("*.json"))]
    (entry / packed.FILE).write_bytes(packed.write(records[::-1], entry / "none"))
    (entry / "arrays").mkdir()
    for file in (entry / "records").glob("*.npz"):
        file.rename(entry / "arrays" / file.name)
    shutil.rmtree(entry / "records")
    leaderboard.generate(board, None, add=entry)
    found = evidence.gather(board)
    assert found.problems == []
    assert set(found.reported) == {told.id for told in records}
    theirs = board / "entries" / "their-rule"
    assert {str(file.relative_to(theirs)) for file in theirs.rglob("*") if file.is_file()} == {
        *("entry.json", packed.FILE),
        *(f"arrays/{told.id}.npz" for told in records if told.arrays),
    }
    assert invoke("leaderboard", board, "--check").exit_code == 0


# Links


@pytest.mark.parametrize(
    "name",
    [
        *("small", "small/arrays", "small/tables", "small/figures", "small/entries", "small/README.md"),
        *("small/index.html", "small/records.jsonl.xz", "small/arrays/RECORD", "small/tables/leaderboard.json"),
        *("index.html", "README.md"),
    ],
)
@pytest.mark.parametrize("source", ["results", "board"])
def test_links_in_the_target_are_refused_and_what_they_lead_to_is_left_alone(board, made, tmp_path, name, source):
    name = name.replace("RECORD", min(file.name for file in (board / "arrays").glob("*.npz")))
    link, outside = board.parent / name, tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.csv").write_text("mine")
    victim = outside / "victim"
    if link.exists():
        link.rename(victim)
    else:
        victim.mkdir()
    link.symlink_to(victim)
    before = tree(tmp_path)
    from_ = (
        ["leaderboard", made.parent / "results" / "small", "--out", board]
        if source == "results"
        else ["leaderboard", board]
    )
    assert "is a symbolic link" in refused(fflbench(*from_))
    assert tree(tmp_path) == before


def test_a_folder_where_a_file_belongs_is_refused_and_kept(board, made):
    (board / "README.md").unlink()
    (board / "README.md").mkdir()
    (board / "README.md" / "mine").write_text("mine")
    before = tree(board.parent)
    assert "README.md stands where a file of that name belongs" in refused(fflbench("leaderboard", board))
    assert tree(board.parent) == before


def test_the_leaderboard_one_stands_in_is_made_again(board):
    before = tree(board.parent)
    assert fflbench("leaderboard", ".", cwd=board).returncode == 0
    assert tree(board.parent) == before


# Disks


def test_a_full_disk_changes_nothing_and_the_next_attempt_works(made, disk):
    place = disk("boards", "size=30m")
    source = made.parent / "results" / "small"
    shutil.copytree(made, place, dirs_exist_ok=True)
    picture = min((place / "small" / "figures").glob("*.svg"))
    picture.unlink()
    (place / "small" / "README.md").write_text("old")
    before = tree(place)
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    with (place / ".filler").open("wb") as filler:
        filler.write(bytes(free - 8 * 1024))
    for arguments in ([place / "small"], [source, "--out", place / "small"], [source, "--out", place / "new"]):
        told = refused(fflbench("leaderboard", *arguments))
        assert "the leaderboard cannot be written to" in told
        assert "No space left on device" in told
        assert {name: of for name, of in tree(place).items() if name != ".filler"} == before
    (place / ".filler").unlink()
    assert fflbench("leaderboard", source, "--out", place / "new").returncode == 0
    assert fflbench("leaderboard", place / "small").returncode == 0
    assert picture.exists()


def test_a_disk_that_may_not_be_written_is_told_in_a_sentence(made, disk):
    place = disk("boards", "size=30m")
    shutil.copytree(made, place, dirs_exist_ok=True)
    (place / "small" / "README.md").write_text("old")
    before = tree(place)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    told = refused(fflbench("leaderboard", place / "small"))
    assert "Read-only file system" in told
    told = refused(fflbench("leaderboard", made.parent / "results" / "small", "--out", place / "new" / "deeper"))
    assert "Read-only file system" in told
    assert tree(place) == before
    subprocess.run(["mount", "-o", "remount,rw", place], check=True)
    assert fflbench("leaderboard", place / "small").returncode == 0


@pytest.mark.parametrize("failing", [1, 2, 5, 9])
def test_a_rename_that_fails_puts_everything_back(board, monkeypatch, failing):
    shutil.rmtree(board / "tables")
    for file in (board / "README.md", board / "index.html", *(board / "figures").iterdir()):
        file.write_text("old")
    (board / "figures" / "old.csv").write_text("no longer made")
    # By the file of tables a folder is known as a leaderboard.
    before, replace, count = tree(board.parent), Path.replace, [0]

    def fails(self, target):
        count[0] += 1
        if count[0] == failing:
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(RecordError, match="Input/output error"):
        leaderboard.generate(board, None)
    assert tree(board.parent) == before


def test_what_cannot_be_put_back_is_kept_and_everything_else_is_put_back(board, monkeypatch):
    originals = [board / "README.md", *sorted((board / "figures").glob("*.svg"))]
    for file in originals:
        file.write_text(f"old {file.name}")
    before, replace, failed = tree(board), Path.replace, []

    def fails(self, target):
        # The last of the figures cannot be put in its place, and then the page cannot be put back.
        if target == originals[-1] or (failed and target == originals[0]):
            failed.append(target)
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(RecordError, match="could not be put back") as caught:
        leaderboard.generate(board, None)
    monkeypatch.undo()
    assert str(originals[0]) in str(caught.value)
    (kept,) = board.glob(".fflbench-kept-*")
    assert str(kept) in str(caught.value)
    assert (kept / "old" / "README.md").read_text() == "old README.md"
    after = tree(board)
    assert {name for name in before if after[name] != before[name]} == {"README.md"}
    leaderboard.generate(board, None)
    assert (kept / "old" / "README.md").read_text() == "old README.md"


def test_folders_of_others_beside_and_in_a_leaderboard_are_left_alone(board):
    (board / "README.md").write_text("old")
    precious = [board.parent / ".fflbench-mine", board / ".fflbench-mine", board.parent / ".stage"]
    for folder in precious:
        folder.mkdir()
        (folder / "precious").write_text("mine")
    leaderboard.generate(board, None)
    assert all((folder / "precious").read_text() == "mine" for folder in precious)


@pytest.mark.parametrize("changed", [True, False])
def test_what_a_killed_command_left_is_swept_up(board, changed):
    before = tree(board.parent)
    if changed:
        (board / "README.md").write_text("old")
    (board / STAGE / "new").mkdir(parents=True)
    (board / STAGE / "new" / "README.md").write_text("half")
    leaderboard.generate(board, None)
    assert tree(board.parent) == before


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_a_file_where_files_are_staged_is_refused(board, tmp_path, kind):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("mine")
    if kind == "link":
        (board / STAGE).symlink_to(tmp_path / "outside")
    else:
        (board / STAGE).write_text("mine")
    (board / "README.md").write_text("old")
    before = tree(tmp_path)
    with pytest.raises(RecordError, match=STAGE):
        replace_files(board, {"README.md": b"new"})
    assert STAGE in refused(fflbench("leaderboard", board))
    assert tree(tmp_path) == before


def test_a_leaderboard_on_a_disk_of_its_own_is_written(made, tmp_path, disk):
    (tmp_path / "boards").mkdir()
    place = disk("boards/small", "size=30m")
    shutil.copytree(made / "small", place, dirs_exist_ok=True)
    (place / "README.md").write_text("old")
    done = fflbench("leaderboard", place)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "boards") == tree(made)


def test_the_list_of_leaderboards_that_cannot_be_written_is_told_and_the_leaderboard_stands(made, disk):
    outer = disk("boards", "size=30m")
    (outer / "small").mkdir()
    place = disk("boards/small", "size=30m")
    shutil.copytree(made / "small", place, dirs_exist_ok=True)
    (place / "README.md").write_text("old")
    subprocess.run(["mount", "-o", "remount,ro", outer], check=True)
    done = fflbench("leaderboard", place)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"the pages that list all leaderboards cannot be written to {outer}: Read-only file system" in done.stderr
    assert tree(place) == tree(made / "small")


def test_leaderboards_beside_one_another_are_written_at_the_same_time(board):
    (board.parent / "index.html").unlink()
    (board.parent / "README.md").unlink()
    command = [sys.executable, "-m", "fflbench", "leaderboard", board, "--out"]
    names = ("first", "second", "third")
    running = [subprocess.Popen([*command, board.parent / name], stderr=subprocess.PIPE) for name in names]
    for each in running:
        _, told = each.communicate(timeout=120)
        assert each.returncode == 0, told
    for name in names:
        assert f"]({name}/README.md)" in (board.parent / "README.md").read_text()


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
    leaderboard.generate(board, None, add=entry)
    monkeypatch.undo()
    assert into.is_dir()
    assert len(seen) > 3
    # It comes last.
    assert not any(seen)


def test_an_entry_that_was_left_half_written_is_replaced(board, entry):
    half = board / "entries" / "their-rule"
    (half / "arrays").mkdir(parents=True)
    (half / packed.FILE).write_text("{}")
    (half / "arrays" / "0123456789abcdef.npz").write_text("")
    leaderboard.generate(board, None, add=entry)
    assert evidence.gather(board).problems == []
    assert "their-rule" in (board / "README.md").read_text()
    assert not (half / "arrays" / "0123456789abcdef.npz").exists()
    with pytest.raises(RecordError, match="a name that is taken"):
        leaderboard.generate(board, None, add=entry)


# Altered records


SAMPLES = """
tasks = ["digits-mlp"]
attacks = ["gaussian-noise"]
defenses = ["fedavg", "median"]
seeds = [0, 1]
overrides = {rounds = 2, participants = 10, per_round = 5}
[[also]]
attacks = ["analytic"]
[also.measure]
use = "reconstruction"
observation = "submission"
groups = 1
people = 10
[[also]]
defenses = ["median", "ffl"]
seeds = [0]
[also.defense.ffl]
mode = "full"
[also.measure]
use = "runtime"
updates = 2
repeats = 1
[[also]]
seeds = [0]
[also.measure]
use = "communication"
updates = 2
[[also]]
attacks = ["loss-threshold", "lira"]
seeds = [0]
[also.measure]
use = "membership"
[[also]]
attacks = ["property-inference"]
seeds = [0]
[also.measure]
use = "property"
groups = 2
people = 4
examples = 10
model_epochs = 0
"""
"""A suite with a few cells of every measure, as small as can be."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """A few records of every measure."""
    folder = tmp_path_factory.mktemp("samples")
    (folder / "samples.toml").write_text(SAMPLES)
    found = {}
    for told in run(str(folder / "samples.toml"), out=folder / "results"):
        assert told.status == "done", told.error
        measure = told.configuration["measure"]["name"]
        found.setdefault(measure, []).append(told.carrying(b""))
    return found


def every_door(folder):
    """Read, show, draw and tabulate the records of a folder, as every command would; named and left out, or fine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = load(folder)
        files = sorted(folder.glob("*.json"))
        for file in files:
            Store(folder).read(file.stem)
            for door in (show.show, lambda file: show.draw(file, folder / "drawn.png")):
                with suppress(FflbenchError):
                    door(file)
        run_report.files(board_of("x", records), records, Store(folder).arrays)
        run_report.show(board_of("x", records), Console(file=io.StringIO()))
        try:
            found = evidence.gather(folder)
        except RecordError:
            return []
        board = board_of(found.suite, found.records)
        drawn = figures(found.records, board, found.arrays)
        how = commands(found.suite, found.records, {})
        leaderboard.content(board, drawn, how)
        page.render(board, found.records, drawn, how)
    return records


ODD = (
    *(
        None,
        True,
        0,
        -1,
        1,
        2**63,
        10**15,
        0.5,
        -0.5,
        1e99,
        -1e300,
        1.7e308,
        5e-324,
        "",
        "x",
        "=1+1",
        "\x1b[31m\0",
        "é" * 5000,
    ),
    *([], [1], [[[]]], {}, {"x": 1}, {"0": {"y": None}}, [None], "NaN", [0.5] * 40),
)


def altered(value, rng):
    """Change one thing, anywhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.25:
            return {name: inner for name, inner in value.items() if name != key}
        return value | {key: altered(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], altered(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD)


def altered_record(told, rng):
    content = content_of(told)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = altered(content, rng)
        if not isinstance(content, dict):
            break
    if isinstance(content, dict) and isinstance(content.get("configuration"), dict) and rng.random() < 0.9:
        # The id is a hash that anybody can make anew.
        content["id"] = identify(content["configuration"])
    return content


def fuzz(samples, folder, cases, seed):
    """How many altered records were still accepted."""
    rng, accepted = random.Random(seed), 0
    for _ in range(cases):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        records = samples[rng.choice(sorted(samples))]
        victim = rng.randrange(len(records))
        for place, told in enumerate(records):
            content = altered_record(told, rng) if place == victim else content_of(told)
            name = content.get("id") if isinstance(content, dict) else None
            name = name if isinstance(name, str) and name.isalnum() else "0" * 16
            (folder / f"{name}.json").write_text(json.dumps(content))
        accepted += len(every_door(folder)) == len(records)
    return accepted


def test_altered_records_are_named_and_left_out_or_shown_wherever_they_are_read(samples, tmp_path):
    accepted = fuzz(samples, tmp_path / "own", 60, seed=0)
    assert 0 < accepted < 60


@pytest.mark.parametrize(
    ("measure", "change"),
    [
        ("robustness", lambda told: told["facts"].pop("attackers")),
        ("robustness", lambda told: told["history"][0].pop("round")),
        ("robustness", lambda told: told["history"][0].update(honest_trust="x")),
        ("robustness", lambda told: told["metrics"].update(accuracy=1.5)),
        ("robustness", lambda told: told["metrics"].update(test_loss=1e101)),
        ("robustness", lambda told: told["facts"].update(guarantee="x")),
        ("runtime", lambda told: told["facts"].pop("columns")),
        ("runtime", lambda told: told["facts"].update(updates_bytes=0)),
        ("runtime", lambda told: told["metrics"].pop("participant_spread")),
        ("runtime", lambda told: told["history"][0].pop("decryption")),
        ("communication", lambda told: told["facts"].pop("seconds")),
        ("communication", lambda told: told["facts"]["seconds"]["rounded"].pop("total")),
        ("communication", lambda told: told["configuration"]["measure"]["parameters"].update(upload=0)),
        ("reconstruction", lambda told: told["facts"].pop("adaptive")),
        ("reconstruction", lambda told: told["configuration"]["measure"]["parameters"].pop("rate")),
        ("reconstruction", lambda told: told["metrics"].update(pair_accuracy=7)),
        ("membership", lambda told: told["facts"].update(members=0)),
        ("membership", lambda told: told["facts"].update(knows=3)),
        ("property", lambda told: told["configuration"]["measure"]["parameters"].pop("share_with")),
        ("property", lambda told: told.update(status="failed")),
        ("robustness", lambda told: told.update(status="failed")),
    ],
)
def test_what_a_table_needs_is_checked_wherever_a_record_is_read(samples, tmp_path, measure, change):
    content = content_of(samples[measure][0])
    change(content)
    write_record(tmp_path, content)
    (file,) = tmp_path.glob("*.json")
    with pytest.raises(RecordError, match=f"{file.name} is no record of {measure}: "):
        read(file)
    with pytest.warns(UserWarning, match="it is left out"):
        assert load(tmp_path) == []
    with pytest.warns(UserWarning, match="its cell runs again"):
        assert Store(tmp_path).read(file.stem) is None
    with pytest.raises(RecordError, match=file.name):
        evidence.gather(tmp_path)
    with pytest.raises(RecordError, match=file.name):
        show.show(file)


def test_numbers_in_text_are_no_numbers(samples, tmp_path):
    content = content_of(samples["robustness"][0])
    content["metrics"]["accuracy"] = "0.5"
    write_record(tmp_path, content)
    (file,) = tmp_path.glob("*.json")
    with pytest.raises(RecordError, match="is no record: metrics"):
        read(file)


# What a run can write can be read


def test_a_loss_beyond_all_bounds_is_shown_in_powers_of_ten(tmp_path):
    huge = [
        told.model_copy(update={"metrics": told.metrics | {"test_loss": (1 + told.configuration["seed"]) * 1e38}})
        for told in WHOLE
    ]
    folder = written(tmp_path / "one", huge)
    where, found = leaderboard.generate(folder, tmp_path / "boards" / "own")
    assert found.problems == []
    text = (where / "README.md").read_text().replace("\\", "")
    assert "2.00e+38 ± 2.48e+38" in text
    text = run_report.files(board_of("x", huge), huge, no_arrays)["tables.md"].decode()
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
        with pytest.raises(RecordError, match="what was found is "):
            Store(tmp_path).write(sound.model_copy(update=change))
    assert list(tmp_path.iterdir()) == []


def test_a_cell_whose_result_could_not_be_read_again_fails_by_itself(tmp_path):
    (tmp_path / "odd.py").write_text(
        "import numpy as np\n"
        "from fflbench.measures import Measure, Metric, Outcome\n"
        "from fflbench.registry import measure\n\n\n"
        '@measure("odd", title="Odd")\nclass Odd(Measure):\n    """Odd arrays."""\n\n    needs_data = False\n\n'
        '    metrics = (Metric(name="x", title="x", meaning="A number."),)\n\n    def run(self, context):\n'
        '        return Outcome({"x": 1.0}, [], {}, arrays={"x": np.array([{}], object)})\n'
    )
    (tmp_path / "own.toml").write_text(
        'tasks = ["digits-mlp"]\ndefenses = ["fedavg"]\nseeds = [0]\n[measure]\nuse = "odd"\n'
    )
    done = fflbench("run", "own.toml", "--plugin", "odd.py", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (told,) = load(tmp_path / "results")
    assert "something else than numbers" in told.reason


def test_labels_that_no_table_could_show_are_refused_before_anything_runs(tmp_path):
    for label in ("x" * 300, "a\\u0007b"):
        (tmp_path / "own.toml").write_text(
            f'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["{label}"]\nseeds = [0]\n'
            f'[defense."{label}"]\nuse = "fedavg"\n'
        )
        assert "the label" in refused(fflbench("run", "own.toml", "--dry-run", cwd=tmp_path))


def test_parameters_that_no_record_could_hold_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "own.toml").write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["odd"]\nseeds = [0]\n[defense.odd]\ncount = [1, 2]\n'
    )
    (tmp_path / "odd.py").write_text(
        'from fflbench.registry import rule\n\n\n@rule("odd", title="Odd")\n'
        'def odd(updates, count: int = 1):\n    """The mean."""\n    return updates.mean(0)\n'
    )
    options = ["--plugin", "odd.py", "--dry-run", "--set"]
    done = fflbench("run", "own.toml", *options, f"defense.odd.count={10**30}", cwd=tmp_path)
    assert "beyond what 64 bits can hold" in refused(done)
    assert "no record under" in refused(fflbench("show", "a" * 300, cwd=tmp_path))


# Titles and commands


def test_a_suites_own_title_and_plugins_are_told_where_its_leaderboard_was_made(tmp_path):
    (tmp_path / "their_plugin.py").write_text(
        'from fflbench.registry import rule\n\n\n@rule("their-rule", title="Theirs")\ndef rule(updates):\n'
        '    """The mean."""\n    return updates.mean(0)\n'
    )
    (tmp_path / "own.toml").write_text(
        'title = "Ours against theirs"\ntasks = ["digits-mlp"]\nattacks = ["none"]\n'
        'defenses = ["fedavg", "their-rule"]\nseeds = [0]\n[overrides]\nrounds = 1\n'
    )
    plugin = tmp_path / "their_plugin.py"
    assert fflbench("run", "own.toml", "--plugin", plugin, cwd=tmp_path).returncode == 0
    assert fflbench("leaderboard", "results/own", cwd=tmp_path).returncode == 0
    for file in ("README.md", "index.html"):
        text = (tmp_path / "leaderboards" / "own" / file).read_text()
        assert "Ours against theirs" in text
        assert "fflbench run own.toml --plugin their_plugin.py" in text
        assert "fflbench verify leaderboards/own --sample 3 --plugin their_plugin.py" in text
        assert str(tmp_path) not in text
    # The same from the leaderboard alone.
    before = tree(tmp_path / "leaderboards")
    assert fflbench("leaderboard", "leaderboards/own", cwd=tmp_path).returncode == 0
    assert tree(tmp_path / "leaderboards") == before


def test_records_without_a_title_are_as_good_as_ever():
    told = content_of(WHOLE[0])
    del told["title"]
    assert Record.parse(json.dumps(told).encode()) == WHOLE[0]
    assert board_of("quick", WHOLE).title != "quick"


# Names and cells


def test_two_tasks_whose_names_make_one_file_name_keep_both_figures(tmp_path):
    records = [
        told for task in ("a b", "a-b") for told in (robust(task=task), robust(task=task, attack="gaussian-noise"))
    ]
    where, _ = leaderboard.generate(written(tmp_path / "one", records), tmp_path / "boards" / "own")
    names = {file.stem for file in (where / "figures").glob("*-a-b*.csv")}
    assert names
    assert {name for name in names if name.endswith("-2")} == {f"{name}-2" for name in names if not name.endswith("-2")}


def test_file_names_of_many_letters_are_cut_by_bytes(tmp_path):
    label = "語" * 100
    records = [robust(task=label), robust(task=label, attack="gaussian-noise", labels={"defense": label})]
    where, _ = leaderboard.generate(written(tmp_path / "one", records), tmp_path / "boards" / "own")
    made = [file.name for file in where.rglob("*") if file.is_file()]
    assert max(len(name.encode()) for name in made) < 150


def test_cells_of_a_runs_own_tables_are_no_formulas(samples):
    for label in ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", " =1"):
        records = [
            told.model_copy(update={"labels": told.labels | {"task": label, "defense": label}})
            for told in [*samples["robustness"], *samples["runtime"]]
        ]
        text = run_report.files(board_of("x", records), records, no_arrays)["tables.csv"].decode()
        cells = [text for row in csv.reader(io.StringIO(text)) for text in row]
        assert f"'{label}" in cells
        assert not any(text.lstrip()[:1] in tuple("=+@\t\r") for text in cells)


def test_what_cannot_be_printed_stays_out_of_tables():
    evil = robust(facts={"flags": ["\x1b]0;x\x07 =1\r\nmore"]})
    tables = board_of("own", [evil]).tables
    for found in tables:
        for text in (formats.to_markdown(found), formats.to_latex(found), formats.to_csv([found])):
            assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert any(flag for found in tables for row in found.rows for flag in row.flags)
