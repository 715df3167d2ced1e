"""Leaderboards in folders with links, on full disks and beside other commands: written as a whole or not at all."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fflbench.errors import RecordError
from fflbench.records.file_replacement import STAGE, replace_files
from fflbench.report import leaderboard
from tests.report.record_folders import folder_content, refusal_message, run_fflbench


@pytest.mark.parametrize(
    "name",
    [
        *("small", "small/arrays", "small/tables", "small/figures", "small/entries", "small/README.md"),
        *("small/index.html", "small/records.jsonl.xz", "small/arrays/RECORD", "small/tables/leaderboard.json"),
        *("index.html", "README.md"),
    ],
)
@pytest.mark.parametrize("source", ["results", "board"])
def test_links_in_the_target_are_refused_and_what_they_lead_to_is_left_alone(board, boards, tmp_path, name, source):
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
    before = folder_content(tmp_path)
    from_ = (
        ["leaderboard", boards.parent / "results" / "small", "--out", board]
        if source == "results"
        else ["leaderboard", board]
    )
    assert "is a symbolic link" in refusal_message(run_fflbench(*from_))
    assert folder_content(tmp_path) == before


def test_a_folder_where_a_file_belongs_is_refused_and_kept(board, boards):
    (board / "README.md").unlink()
    (board / "README.md").mkdir()
    (board / "README.md" / "mine").write_text("mine")
    before = folder_content(board.parent)
    assert "README.md stands where a file of that name belongs" in refusal_message(run_fflbench("leaderboard", board))
    assert folder_content(board.parent) == before


def test_the_leaderboard_one_stands_in_is_made_again(board):
    before = folder_content(board.parent)
    assert run_fflbench("leaderboard", ".", cwd=board).returncode == 0
    assert folder_content(board.parent) == before


def test_a_full_disk_changes_nothing_and_the_next_attempt_works(boards, disk):
    place = disk("boards", "size=30m")
    source = boards.parent / "results" / "small"
    shutil.copytree(boards, place, dirs_exist_ok=True)
    picture = min((place / "small" / "figures").glob("*.svg"))
    picture.unlink()
    (place / "small" / "README.md").write_text("old")
    before = folder_content(place)
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    with (place / ".filler").open("wb") as filler:
        filler.write(bytes(free - 8 * 1024))
    for arguments in ([place / "small"], [source, "--out", place / "small"], [source, "--out", place / "new"]):
        message = refusal_message(run_fflbench("leaderboard", *arguments))
        assert "the leaderboard cannot be written to" in message
        assert "No space left on device" in message
        assert {name: of for name, of in folder_content(place).items() if name != ".filler"} == before
    (place / ".filler").unlink()
    assert run_fflbench("leaderboard", source, "--out", place / "new").returncode == 0
    assert run_fflbench("leaderboard", place / "small").returncode == 0
    assert picture.exists()


def test_a_read_only_disk_is_reported_in_a_sentence(boards, disk):
    place = disk("boards", "size=30m")
    shutil.copytree(boards, place, dirs_exist_ok=True)
    (place / "small" / "README.md").write_text("old")
    before = folder_content(place)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    message = refusal_message(run_fflbench("leaderboard", place / "small"))
    assert "Read-only file system" in message
    message = refusal_message(
        run_fflbench("leaderboard", boards.parent / "results" / "small", "--out", place / "new" / "deeper")
    )
    assert "Read-only file system" in message
    assert folder_content(place) == before
    subprocess.run(["mount", "-o", "remount,rw", place], check=True)
    assert run_fflbench("leaderboard", place / "small").returncode == 0


@pytest.mark.parametrize("failing", [1, 2, 5, 9])
def test_a_rename_that_fails_puts_everything_back(board, monkeypatch, failing):
    shutil.rmtree(board / "tables")
    for file in (board / "README.md", board / "index.html", *(board / "figures").iterdir()):
        file.write_text("old")
    (board / "figures" / "old.csv").write_text("no longer made")
    # By the file of tables a folder is known as a leaderboard.
    before, replace, count = folder_content(board.parent), Path.replace, [0]

    def fails(self, target):
        count[0] += 1
        if count[0] == failing:
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(RecordError, match="Input/output error"):
        leaderboard.generate(board, None)
    assert folder_content(board.parent) == before


def test_what_cannot_be_put_back_is_kept_and_everything_else_is_put_back(board, monkeypatch):
    originals = [board / "README.md", *sorted((board / "figures").glob("*.svg"))]
    for file in originals:
        file.write_text(f"old {file.name}")
    before, replace, failed = folder_content(board), Path.replace, []

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
    after = folder_content(board)
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
    before = folder_content(board.parent)
    if changed:
        (board / "README.md").write_text("old")
    (board / STAGE / "new").mkdir(parents=True)
    (board / STAGE / "new" / "README.md").write_text("half")
    leaderboard.generate(board, None)
    assert folder_content(board.parent) == before


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_a_file_where_files_are_staged_is_refused(board, tmp_path, kind):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("mine")
    if kind == "link":
        (board / STAGE).symlink_to(tmp_path / "outside")
    else:
        (board / STAGE).write_text("mine")
    (board / "README.md").write_text("old")
    before = folder_content(tmp_path)
    with pytest.raises(RecordError, match=STAGE):
        replace_files(board, {"README.md": b"new"})
    assert STAGE in refusal_message(run_fflbench("leaderboard", board))
    assert folder_content(tmp_path) == before


def test_a_leaderboard_on_a_disk_of_its_own_is_written(boards, tmp_path, disk):
    (tmp_path / "boards").mkdir()
    place = disk("boards/small", "size=30m")
    shutil.copytree(boards / "small", place, dirs_exist_ok=True)
    (place / "README.md").write_text("old")
    done = run_fflbench("leaderboard", place)
    assert done.returncode == 0, done.stderr
    assert folder_content(tmp_path / "boards") == folder_content(boards)


def test_a_leaderboard_is_written_even_if_the_list_of_leaderboards_cannot_be(boards, disk):
    outer = disk("boards", "size=30m")
    (outer / "small").mkdir()
    place = disk("boards/small", "size=30m")
    shutil.copytree(boards / "small", place, dirs_exist_ok=True)
    (place / "README.md").write_text("old")
    subprocess.run(["mount", "-o", "remount,ro", outer], check=True)
    done = run_fflbench("leaderboard", place)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"the pages that list all leaderboards cannot be written to {outer}: Read-only file system" in done.stderr
    assert folder_content(place) == folder_content(boards / "small")


def test_leaderboards_beside_one_another_are_written_at_the_same_time(board):
    (board.parent / "index.html").unlink()
    (board.parent / "README.md").unlink()
    command = [sys.executable, "-m", "fflbench", "leaderboard", board, "--out"]
    names = ("first", "second", "third")
    running = [subprocess.Popen([*command, board.parent / name], stderr=subprocess.PIPE) for name in names]
    for each in running:
        _, message = each.communicate(timeout=120)
        assert each.returncode == 0, message
    for name in names:
        assert f"]({name}/README.md)" in (board.parent / "README.md").read_text()
