import dataclasses
import gzip
import json
import lzma
import os
import subprocess
import sys

import numpy as np
import pytest

from fflbench.data import Data, Examples, cache
from fflbench.data.cache import is_available, is_prepared, load
from fflbench.data.dataset_files import DataFile
from fflbench.errors import DataError
from tests.data.conftest import CONTENT, small_set


def files_in(folder):
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".lock"))


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_files_may_stand_plain_or_packed(own_folders, ending, pack):
    (own_folders / "small").mkdir()
    for name, content in CONTENT.items():
        (own_folders / "small" / f"{name}{ending}").write_bytes(pack(content))
    data = load(small_set())
    assert data.train.x.tolist() == list(range(3000))
    assert len(data.test) == 2000
    assert data.facts == {"largest": 4999}


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), ("", bytes)])
@pytest.mark.parametrize("kept", [0, 1, 20, -1])
def test_a_truncated_file_is_named_and_not_used(own_folders, ending, pack, kept):
    folder = own_folders / "small"
    folder.mkdir()
    (folder / "first").write_bytes(CONTENT["first"])
    (folder / f"second{ending}").write_bytes(pack(CONTENT["second"])[:kept])
    with pytest.raises(DataError, match=f"small/second{ending} "):
        load(small_set())
    assert not is_prepared(small_set())


def test_an_altered_file_is_named_with_both_checksums_and_not_used(small_set_folder):
    (small_set_folder / "second").write_bytes(CONTENT["second"].replace(b"17", b"71"))
    expected = small_set().files[1].sha256[:12]
    with pytest.raises(
        DataError, match=rf"small/second is not the second of Small: its sha256 is .{{12}}…, not {expected}"
    ):
        load(small_set())


def test_arrays_are_prepared_once_next_to_the_data_and_mapped(small_set_folder):
    first = load(small_set())
    assert is_prepared(small_set())
    (place,) = [folder for folder in (small_set_folder / ".prepared").iterdir() if folder.is_dir()]
    for name in CONTENT:
        (small_set_folder / name).unlink()
    again = load(small_set())
    assert isinstance(again.train.x, np.memmap)
    np.testing.assert_array_equal(again.train.x, first.train.x)
    assert files_in(place) == ["about.json", "x_test.npy", "x_train.npy", "y_test.npy", "y_train.npy"]


def test_writing_into_loaded_arrays_reaches_no_file(small_set_folder):
    load(small_set()).train.x[:] = 0
    assert load(small_set()).train.x.tolist() == list(range(3000))


def test_another_preparation_never_meets_old_arrays(small_set_folder):
    load(small_set())

    def negative(contents):
        data = small_set().prepare(contents)
        return Data(Examples(-data.train.x, data.train.y), data.test, data.facts)

    newer = dataclasses.replace(small_set(), prepare=negative, version=2)
    assert load(newer).train.x[7] == -7
    assert load(small_set()).train.x[7] == 7


def test_arrays_of_other_sources_are_not_taken_for_these(small_set_folder):
    changed = tuple(DataFile(part.name, part.sha256[::-1]) for part in small_set().files)
    assert dataclasses.replace(small_set(), files=changed).cache_key != small_set().cache_key
    assert dataclasses.replace(small_set(), version=2).cache_key != small_set().cache_key


def test_what_a_killed_preparation_left_is_swept_up(small_set_folder):
    (small_set_folder / ".prepared/.new-killed").mkdir(parents=True)
    (small_set_folder / ".prepared/.new-killed/x_train.npy").write_bytes(b"half of it")
    load(small_set())
    assert not list((small_set_folder / ".prepared").glob(".new-*"))


def test_a_cache_that_may_not_be_entered_is_passed_by(small_set_folder, tmp_path):
    """Only a user who is not root can be kept out; the folder is tried all the same."""
    (tmp_path / "cache").mkdir(mode=0o000)
    try:
        assert load(small_set()).train.x[7] == 7
    finally:
        (tmp_path / "cache").chmod(0o755)


def test_a_file_damaged_in_the_middle_is_named(own_folders):
    (own_folders / "small").mkdir()
    packed = bytearray(gzip.compress(CONTENT["first"]))
    packed[len(packed) // 2] ^= 0xFF
    packed[len(packed) // 2 + 1] ^= 0xFF
    (own_folders / "small/first.gz").write_bytes(packed)
    (own_folders / "small/second").write_bytes(CONTENT["second"])
    with pytest.raises(DataError, match=r"small/first\.gz "):
        load(small_set())


def test_an_empty_variable_means_the_user_cache(monkeypatch, tmp_path, own_folders):
    monkeypatch.setenv("FFLBENCH_DATA", "")
    assert small_set().folder == tmp_path / "cache/fflbench/data/small"


def test_a_read_only_data_folder_leaves_the_arrays_to_the_user_cache(small_set_folder, tmp_path):
    small_set_folder.chmod(0o555)
    try:
        assert load(small_set()).train.x[7] == 7
        assert files_in(small_set_folder) == ["first", "second"]
        assert "x_train.npy" in files_in(tmp_path / "cache")
    finally:
        small_set_folder.chmod(0o755)


def test_without_a_writable_cache_arrays_are_prepared_again_with_a_warning(small_set_folder, tmp_path):
    (tmp_path / "cache").mkdir()
    for folder in (small_set_folder, tmp_path / "cache"):
        folder.chmod(0o555)
    try:
        with pytest.warns(UserWarning, match="prepared again each time: no cache folder can be written"):
            assert load(small_set()).train.x[7] == 7
    finally:
        for folder in (small_set_folder, tmp_path / "cache"):
            folder.chmod(0o755)


def test_a_full_disk_costs_only_the_cache(small_set_folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.warns(UserWarning, match="could not be kept .*No space left"):
        assert load(small_set()).train.x[7] == 7
    assert [file.name for file in (small_set_folder / ".prepared").iterdir()] == [".preparing.lock"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / "x_train.npy").write_bytes((place / "x_train.npy").read_bytes()[:500]),
        lambda place: (place / "x_train.npy").write_bytes((place / "x_train.npy").read_bytes()[:-4] + b"1234"),
        lambda place: (place / "y_test.npy").unlink(),
        lambda place: (place / "about.json").write_text("{"),
        lambda place: (place / "about.json").write_text("{}"),
        lambda place: (place / "about.json").write_text("[]"),
        lambda place: (place / "about.json").write_text('{"sha256": null}'),
        lambda place: ((place / "x_test.npy").unlink(), os.mkfifo(place / "x_test.npy")),
    ],
)
def test_damaged_arrays_are_prepared_again_with_a_warning(small_set_folder, damage):
    load(small_set())
    damage(small_set_folder / ".prepared" / small_set().cache_key)
    with pytest.warns(UserWarning, match="are damaged and are prepared again"):
        assert load(small_set()).train.x[7] == 7
    assert load(small_set()).train.x[7] == 7


def test_a_missing_set_without_a_network_says_what_to_put_where(own_folders):
    assert not is_available(small_set())
    with pytest.raises(DataError, match=f"put first, second into {own_folders}/small by hand"):
        load(small_set())


def test_a_missing_set_is_fetched(own_folders, server):
    assert load(small_set(server.address)).train.x[7] == 7


def test_two_processes_prepare_a_set_once(small_set_folder, tmp_path):
    code = f"""
import pathlib, time
from tests.data.conftest import small_set, prepare
from fflbench.data.cache import load
import dataclasses
def slow(contents):
    with open({str(tmp_path / "count")!r}, "a") as count:
        count.write("x")
    time.sleep(0.5)
    return prepare(contents)
print(load(dataclasses.replace(small_set(), prepare=slow)).train.x[7])
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in processes] == ["7.0\n"] * 3
    assert (tmp_path / "count").read_text() == "x"


def test_no_array_is_unpickled(small_set_folder):
    load(small_set())
    place = small_set_folder / ".prepared" / small_set().cache_key
    np.save(place / "x_train.npy", np.array([{"a": "pickle"}]), allow_pickle=True)
    sums = json.loads((place / "about.json").read_text())
    sums["sha256"]["x_train"] = cache._checksum(place / "x_train.npy")
    (place / "about.json").write_text(json.dumps(sums))
    with pytest.warns(UserWarning, match="prepared again"):
        assert load(small_set()).train.x[7] == 7
