"""Records in one file: what comes back, what damage costs, and what is refused."""

import lzma
import os
import random
import time
import warnings

import pytest

from fflbench import load
from fflbench.errors import RecordError
from fflbench.execution.cells_to_run import plan_run
from fflbench.execution.run_options import Options
from fflbench.records import collection, jsonl_file
from fflbench.records.store import read_record
from fflbench.report import leaderboard, show_record
from tests.report.record_folders import invoke_command, read_record_lines, write_record_lines, write_run_folder
from tests.report.synthetic_records import WHOLE


@pytest.fixture
def file(tmp_path):
    (tmp_path / jsonl_file.FILE).write_bytes(jsonl_file.pack_records(WHOLE, tmp_path / "none"))
    return tmp_path / jsonl_file.FILE


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    leaderboard.generate(write_run_folder(folder / "results" / "own", WHOLE), folder / "boards" / "own")
    return folder


def read_records(file):
    return [record for _, record in jsonl_file.read_records(file)[0]]


def test_records_come_back_in_their_order_to_the_bit(file):
    assert read_records(file) == WHOLE
    assert [record.json_text() for record in read_records(file)] == [record.json_text() for record in WHOLE]
    assert jsonl_file.read_records(file)[1] == []


def test_each_line_is_one_record_with_its_digest(file):
    lines = lzma.decompress(file.read_bytes()).splitlines()
    assert lines == [record.json_text(indent=None).strip().encode() for record in WHOLE]
    assert all(line.count(b'"digest":"') == 1 for line in lines)


def test_the_same_records_give_the_same_bytes(file, tmp_path):
    assert jsonl_file.pack_records(read_records(file), tmp_path / "none") == file.read_bytes()


def test_a_file_of_the_same_records_keeps_its_bytes_however_it_was_packed(file):
    text = lzma.decompress(file.read_bytes())
    otherwise = lzma.compress(text, preset=0)
    file.write_bytes(otherwise)
    assert jsonl_file.pack_records(WHOLE, file) == otherwise
    assert jsonl_file.pack_records(WHOLE[:-1], file) != otherwise
    file.write_bytes(b"damaged")
    assert lzma.decompress(jsonl_file.pack_records(WHOLE, file)) == text


@pytest.mark.parametrize("end", [0, 1, 100, -1, -12])
def test_a_file_that_was_cut_off_gives_the_lines_before(file, end):
    whole = file.read_bytes()
    file.write_bytes(whole[:end])
    found, (problem,) = jsonl_file.read_records(file)
    assert [record for _, record in found] == WHOLE[: len(found)]
    assert f"is damaged from line {len(found) + 1} on" in problem
    assert len(found) == (len(WHOLE) if end < 0 else 0)


def test_a_flipped_bit_costs_no_line_before_it_and_alters_none(file):
    content, rng, seen = file.read_bytes(), random.Random(0), set()
    for _ in range(60):
        bit = rng.randrange(8 * len(content))
        harmed = bytearray(content)
        harmed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(harmed)
        found, problems = jsonl_file.read_records(file)
        assert problems
        assert [record for _, record in found] == WHOLE[: len(found)]
        seen.add(len(found))
    assert len(seen) > 3


def test_damage_behind_the_records_costs_none(file):
    # The index and the footer of the format, and the sum of all that was unpacked.
    content = file.read_bytes()
    for place in range(len(content) - 28, len(content)):
        harmed = bytearray(content)
        harmed[place] ^= 255
        file.write_bytes(harmed)
        found, (problem,) = jsonl_file.read_records(file)
        assert [record for _, record in found] == WHOLE
        assert f"from line {len(WHOLE) + 1} on" in problem


def test_content_behind_the_end_is_reported(file):
    file.write_bytes(file.read_bytes() * 2)
    found, (problem,) = jsonl_file.read_records(file)
    assert len(found) == len(WHOLE)
    assert "there is more behind its end" in problem


def test_a_file_that_unpacks_to_too_much_is_refused_at_once(tmp_path):
    for content, name in ((b"\n" * (jsonl_file.MOST + 1), "lines"), (bytes(jsonl_file.LARGEST_TEXT + 1), "text")):
        file = tmp_path / name / jsonl_file.FILE
        file.parent.mkdir()
        file.write_bytes(lzma.compress(content, preset=0))
        assert file.stat().st_size < 100_000
        start = time.monotonic()
        with pytest.raises(RecordError, match=f"{jsonl_file.FILE} unpacks to too much: at most 65,536 lines"):
            jsonl_file.read_records(file)
        assert time.monotonic() - start < 10


def test_a_file_that_needs_much_memory_to_unpack_is_damaged(tmp_path):
    file = tmp_path / jsonl_file.FILE
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**29}]
    file.write_bytes(lzma.compress(b"x" * 100, filters=filters))
    found, (problem,) = jsonl_file.read_records(file)
    assert not found
    assert "memory" in problem


def test_a_line_that_is_too_long_costs_no_other(file, monkeypatch):
    lines = lzma.decompress(file.read_bytes()).splitlines(keepends=True)
    monkeypatch.setattr(jsonl_file, "LONGEST_LINE", max(map(len, lines)))
    write_record_lines(file.parent, [b" " * 10_000 + b"\n", *lines])
    found, (problem,) = jsonl_file.read_records(file)
    assert [record for _, record in found] == WHOLE
    assert "line 1, is longer than" in problem


def test_more_records_than_can_be_read_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl_file, "MOST", 3)
    with pytest.raises(RecordError, match="too many"):
        jsonl_file.pack_records(WHOLE, tmp_path / "none")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nowhere"])
def test_anything_but_a_file_is_refused_in_a_sentence(tmp_path, kind):
    place = tmp_path / jsonl_file.FILE
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecordError, match=f"there is no record in .*{jsonl_file.FILE}"):
        collection.read_collection(tmp_path)


# Where records are looked for


def test_load_reads_runs_and_leaderboards(made):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(record.id for record in load(made)) == sorted(2 * [record.id for record in WHOLE])
        assert [record.id for record in load(made / "boards")] == [
            record.id for record in collection.read_collection(made / "boards" / "own").records
        ]


def test_load_names_what_is_damaged_and_goes_on(made, tmp_path):
    lines = read_record_lines(made / "boards" / "own")
    write_record_lines(tmp_path, [b"{}\n", *lines])
    with pytest.warns(UserWarning, match=r"line 1, is no record that can be trusted: it has no \"digest\""):
        assert len(load(tmp_path)) == len(WHOLE)


def test_records_are_found_by_the_first_letters_of_their_id(made):
    board, wanted = made / "boards" / "own", WHOLE[3]
    assert read_record(board / wanted.id[:8]) == wanted
    assert show_record.find_record(f"{board}/{wanted.id[:8]}", made) == board / wanted.id
    assert show_record.find_record(wanted.id[:8], made / "boards") == board / wanted.id
    assert show_record.find_record(wanted.id[:8], made / "results") == made / "results" / "own" / f"{wanted.id}.json"
    with pytest.raises(RecordError, match="2 records under"):
        show_record.find_record(wanted.id[:8], made)
    with pytest.raises(RecordError, match=r"records in .* with an id that begins with"):
        read_record(board / shared_letter())
    with pytest.raises(RecordError, match=r"no record in .* with an id that begins with \"0000000000000000\""):
        read_record(board / ("0" * 16))


def shared_letter():
    """A letter that several ids begin with."""
    first = [record.id[0] for record in WHOLE]
    return next(letter for letter in first if first.count(letter) > 1)


def test_the_command_that_is_shown_for_a_record_of_a_leaderboard_runs_it_elsewhere(made, tmp_path, monkeypatch):
    monkeypatch.chdir(made / "boards")
    before = (made / "boards" / "own" / jsonl_file.FILE).read_bytes()
    text = show_record.record_text(show_record.find_record(f"own/{WHOLE[0].id[:8]}", tmp_path))
    assert f"fflbench run own/{WHOLE[0].id} --force" in text
    planned = plan_run(f"own/{WHOLE[0].id}", Options(), out=tmp_path)
    assert [cell.id for cell in planned.to_run] == [WHOLE[0].id]
    assert planned.one_record
    assert planned.store.folder == tmp_path / "own"
    assert (made / "boards" / "own" / jsonl_file.FILE).read_bytes() == before


# Making all again


@pytest.fixture
def boards(tmp_path):
    for name in ("one", "two"):
        leaderboard.generate(write_run_folder(tmp_path / "results", WHOLE), tmp_path / "boards" / name)
    return tmp_path / "boards"


def first_figure_file(board):
    """A picture of a leaderboard."""
    return min((board / "figures").glob("*.svg"))


def contents_by_file(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_all_leaderboards_of_a_folder_are_made_again(boards):
    before = contents_by_file(boards)
    (boards / "one" / "README.md").write_text("old")
    (boards / "two" / "tables" / "old.csv").write_text("no longer made")
    picture = first_figure_file(boards / "two").relative_to(boards)
    (boards / picture).unlink()
    (boards / "README.md").write_text("# Leaderboards\nold")
    found = invoke_command("leaderboard", "--all", boards, "--check")
    assert found.exit_code == 1
    for name in ("one/README.md", "two/tables/old.csv", picture, "README.md"):
        assert f"{boards / name} differs from what its records give" in found.output
    assert "4 files differ" in found.output
    found = invoke_command("leaderboard", "--all", boards)
    assert found.exit_code == 0, found.output
    assert contents_by_file(boards) == before
    assert invoke_command("leaderboard", "--all", boards, "--check").exit_code == 0


def test_comparing_writes_nothing(boards):
    (boards / "one" / "README.md").write_text("old")
    before = contents_by_file(boards)
    assert invoke_command("leaderboard", "--all", boards, "--check").exit_code == 1
    assert invoke_command("leaderboard", boards / "one", "--check").exit_code == 1
    assert invoke_command("leaderboard", boards / "two", "--check").exit_code == 0
    assert contents_by_file(boards) == before


def test_records_out_of_order_differ_and_are_put_in_order(boards):
    before = contents_by_file(boards)
    write_record_lines(boards / "one", read_record_lines(boards / "one")[::-1])
    found = invoke_command("leaderboard", "--all", boards, "--check")
    assert f"{boards / 'one' / jsonl_file.FILE} differs from what its records give" in found.output
    assert invoke_command("leaderboard", "--all", boards).exit_code == 0
    assert read_record_lines(boards / "one") == lzma.decompress(before[boards / "one" / jsonl_file.FILE]).splitlines(
        keepends=True
    )


def test_a_leaderboard_that_cannot_be_made_is_named_and_the_others_are(boards):
    (boards / "one" / jsonl_file.FILE).write_bytes(b"")
    (boards / "two" / "README.md").write_text("old")
    found = invoke_command("leaderboard", "--all", boards)
    assert found.exit_code == 1
    assert f"there is no record in {boards / 'one'}" in found.output
    assert (boards / "two" / "README.md").read_text() != "old"
    assert invoke_command("leaderboard", "--all", boards, "--check").exit_code == 1


@pytest.mark.parametrize("same", [True, False])
def test_figures_are_compared_unless_other_libraries_drew_them_which_is_reported(boards, same):
    picture, page = first_figure_file(boards / "one"), boards / "one" / "index.html"
    text = picture.read_text()
    picture.write_text(text.replace("stroke", "STROKE") if same else text.replace("(Matplotlib ", "(Matplotlib 1."))
    page.write_text(page.read_text().replace("data:image/svg+xml;base64,", "data:image/svg+xml;base64,AAAA"))
    found = invoke_command("leaderboard", "--all", boards, "--check")
    assert found.exit_code == (1 if same else 0), found.output
    how = "differs from what its records give" if same else "was drawn with other libraries than (Matplotlib"
    for file in (picture, page):
        assert f"{file} {how}" in found.output


def test_what_makes_no_sense_with_all_is_refused(boards, tmp_path):
    for extra in (["--out", tmp_path / "x"], ["--add", tmp_path], ["--knows", "own data"]):
        assert invoke_command("leaderboard", "--all", boards, *extra).exit_code != 0
    for nothing in (tmp_path / "results", tmp_path / "nowhere"):
        assert invoke_command("leaderboard", "--all", nothing).exit_code != 0
    assert invoke_command("leaderboard").exit_code != 0
    assert not (tmp_path / "x").exists()
