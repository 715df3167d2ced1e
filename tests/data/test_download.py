import dataclasses
import hashlib
import io
import json
import tarfile

import pytest

from fflbench.data import imdb
from fflbench.data.cifar10 import CIFAR10
from fflbench.data.dataset_files import DataFile, check_files
from fflbench.data.download import fetch
from fflbench.errors import DataError
from tests.data.conftest import CONTENT, offered_at, small_set


def has_all_files(data_set):
    return [found.problem for found in check_files(data_set)] == ["", ""]


def test_fetching_stores_every_file_and_nothing_else(own_folders, server):
    data_set = small_set(server.address)
    fetch(data_set)
    assert has_all_files(data_set)
    assert {file.name for file in data_set.folder.iterdir()} - {".fetching.lock"} == set(CONTENT)


def test_what_is_here_is_not_fetched_again(small_set_folder, server):
    (small_set_folder / "second").unlink()
    fetch(small_set(server.address))
    assert server.asked == [("second", None)]


@pytest.mark.parametrize("length", ["many", "-5", "1e3", "²", ""])
def test_a_length_that_is_no_number_is_no_length(own_folders, monkeypatch, length):
    class Response(io.BytesIO):
        status, headers = 200, {"Content-Length": length}

    answers = {f"/{name}": content for name, content in CONTENT.items()}
    monkeypatch.setattr("urllib.request.urlopen", lambda request, timeout: Response(answers[request.selector]))
    fetch(small_set("http://127.0.0.1:1"))
    assert has_all_files(small_set())


def test_a_broken_download_goes_on_where_it_stopped(own_folders, server):
    data_set = small_set(server.address)
    server.break_after = 100
    with pytest.raises(
        DataError, match=r"the connection broke after 100 of .* bytes\): run the command again to resume"
    ):
        fetch(data_set)
    fetch(data_set)
    assert has_all_files(data_set)
    assert server.asked[1] == ("first", "bytes=100-")


def test_a_server_that_cannot_go_on_in_the_middle_starts_over(own_folders, server):
    data_set = small_set(server.address)
    server.break_after, server.ranges = 100, False
    with pytest.raises(DataError):
        fetch(data_set)
    fetch(data_set)
    assert has_all_files(data_set)
    assert len(server.asked) == 3


@pytest.mark.parametrize("rest", [b"something else", b"x" * 10**6])
def test_a_rest_of_another_file_is_thrown_away_and_the_download_starts_over(own_folders, server, rest):
    data_set = small_set(server.address)
    data_set.folder.mkdir()
    (data_set.folder / "partial-first").write_bytes(rest)
    fetch(data_set)
    assert has_all_files(data_set)


def test_wrong_content_is_refused_and_replaces_nothing(small_set_folder, server):
    (small_set_folder / "first").write_text("damaged, but perhaps of use")
    server.files["first"] = b"not what it should be"
    with pytest.raises(DataError, match="is not the first of Small: its sha256 is"):
        fetch(small_set(server.address))
    assert (small_set_folder / "first").read_text() == "damaged, but perhaps of use"
    assert {file.name for file in small_set_folder.iterdir()} - {".fetching.lock"} == set(CONTENT)


def test_a_write_that_breaks_off_leaves_the_old_file(small_set_folder, server, monkeypatch):
    (small_set_folder / "first").write_text("damaged, but perhaps of use")

    def broken(self, content):
        with self.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(small_set_folder), "write_bytes", broken)
    with pytest.raises(DataError, match="No space left on device"):
        fetch(small_set(server.address))
    assert (small_set_folder / "first").read_text() == "damaged, but perhaps of use"


def test_a_mirror_with_wrong_content_is_passed_by(own_folders, server):
    server.files["wrong/first"] = server.files["wrong/second"] = b"an error page"
    data_set = small_set(server.address)
    downloads = tuple(
        dataclasses.replace(download, urls=(f"{server.address}/wrong/{download.file_name}", *download.urls))
        for download in data_set.downloads
    )
    fetch(dataclasses.replace(data_set, downloads=downloads))
    assert has_all_files(data_set)


def test_a_download_that_was_complete_but_not_unpacked_is_not_fetched_again(own_folders, server):
    data_set = small_set(server.address)
    data_set.folder.mkdir()
    for name, content in CONTENT.items():
        (data_set.folder / f"partial-{name}").write_bytes(content)
    fetch(data_set)
    assert has_all_files(data_set)
    assert server.asked == [(name, f"bytes={len(content)}-") for name, content in CONTENT.items()]


def test_a_complete_folder_is_not_written_to(small_set_folder, server):
    small_set_folder.chmod(0o555)
    try:
        fetch(small_set(server.address))
        assert sorted(file.name for file in small_set_folder.iterdir()) == sorted(CONTENT)
    finally:
        small_set_folder.chmod(0o755)


def test_a_damaged_file_is_replaced_by_a_good_one(small_set_folder, server):
    (small_set_folder / "first").write_text("damaged")
    fetch(small_set(server.address))
    assert (small_set_folder / "first").read_bytes() == CONTENT["first"]


def test_the_next_mirror_is_tried(own_folders, server):
    data_set = small_set(server.address)
    downloads = tuple(
        dataclasses.replace(download, urls=(f"http://127.0.0.1:1/{download.file_name}", *download.urls))
        for download in data_set.downloads
    )
    data_set = dataclasses.replace(data_set, downloads=downloads)
    fetch(data_set)
    assert has_all_files(data_set)


def test_a_missing_file_on_the_server_is_an_error(own_folders, server):
    server.files.clear()
    with pytest.raises(DataError, match="Not Found"):
        fetch(small_set(server.address))


def test_a_folder_that_cannot_be_written_is_an_error(own_folders, server):
    own_folders.rmdir()
    own_folders.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"Small cannot be stored in .*give another folder with --data-dir"):
        fetch(small_set(server.address))


def tar_gz_bytes(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def small_imdb(reviews):
    """The real set's way of unpacking and checking, on a few reviews of our own."""

    def part(name):
        lines = "\n".join(json.dumps({"label": label, "text": text}) for label, text in reviews[name])
        return DataFile(f"{name}.jsonl", hashlib.sha256(imdb.sort_reviews(lines.encode())).hexdigest())

    return dataclasses.replace(imdb.IMDB, files=(part("train"), part("test")))


REVIEWS = {"train": [(1, "A fine film."), (0, "Dull.\nVery – dull.")], "test": [(0, "No."), (1, "Yes…")]}
ARCHIVE = tar_gz_bytes(
    {
        "aclImdb/train/pos/0_9.txt": b"A fine film.",
        "aclImdb/train/neg/0_1.txt": "Dull.\nVery – dull.".encode(),
        "aclImdb/train/unsup/0_0.txt": b"Neither here nor there.",
        "aclImdb/test/pos/0_9.txt": "Yes…".encode(),
        "aclImdb/test/neg/0_2.txt": b"No.",
        "aclImdb/README": b"Large Movie Review Dataset",
    }
)


def test_imdb_comes_out_of_its_archive_whatever_the_order_of_the_files(own_folders, server):
    server.files["aclImdb_v1.tar.gz"] = ARCHIVE
    data_set = offered_at(small_imdb(REVIEWS), server.address)
    fetch(data_set)
    assert has_all_files(data_set)


def test_an_archive_put_there_by_hand_is_used_without_a_network(own_folders):
    data_set = offered_at(small_imdb(REVIEWS), "http://127.0.0.1:1")
    data_set.folder.mkdir()
    (data_set.folder / "aclImdb_v1.tar.gz").write_bytes(ARCHIVE)
    fetch(data_set)
    assert has_all_files(data_set)
    assert (data_set.folder / "aclImdb_v1.tar.gz").exists()


def test_a_truncated_archive_is_named(own_folders):
    data_set = offered_at(small_imdb(REVIEWS), "http://127.0.0.1:1")
    data_set.folder.mkdir()
    (data_set.folder / "aclImdb_v1.tar.gz").write_bytes(ARCHIVE[:100])
    with pytest.raises(DataError, match=r"aclImdb_v1\.tar\.gz cannot be read, it may be truncated"):
        fetch(data_set)


def test_cifar10_comes_out_of_its_archive(tmp_path):
    files = {f"cifar-10-batches-bin/{part.name}": part.name.encode() for part in CIFAR10.files}
    (tmp_path / "x.tar.gz").write_bytes(tar_gz_bytes(files | {"cifar-10-batches-bin/readme.html": b""}))
    unpacked = CIFAR10.downloads[0].unpack(tmp_path / "x.tar.gz")
    assert unpacked == {part.name: part.name.encode() for part in CIFAR10.files}
