"""Packed files that unpack to more than they should are refused with the limit, before the memory is taken."""

import gzip
import io
import lzma
import resource
import subprocess
import sys
import tarfile

import pytest

from fflbench.data import cifar10, imdb
from fflbench.data.dataset_files import read_unpacked, tar_members, verify_checksum
from fflbench.data.mnist import MNIST
from fflbench.errors import DataError

ZEROS = bytes(2**26)
ALLOWED = 2 * 2**30


def run_with_little_memory(*arguments, folder):
    """The command with little memory."""
    return subprocess.run(
        [sys.executable, "-m", "fflbench", *arguments, "--data-dir", str(folder)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ALLOWED, ALLOWED)),
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_small_file_that_unpacks_to_gigabytes_is_refused_with_the_limit(tmp_path, ending, pack):
    (tmp_path / "mnist").mkdir()
    packed = tmp_path / f"mnist/train-images-idx3-ubyte{ending}"
    packed.write_bytes(pack(ZEROS) * 64)
    assert packed.stat().st_size < 2**23
    done = run_with_little_memory("data", "status", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"{packed} unpacks to more than 47,040,016 bytes" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plain_file_that_is_too_large_is_refused_with_the_limit(tmp_path):
    (tmp_path / "mnist").mkdir()
    with (tmp_path / "mnist/train-images-idx3-ubyte").open("wb") as sparse:
        sparse.truncate(2**40)
    done = run_with_little_memory("data", "status", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "train-images-idx3-ubyte holds more than 47,040,016 bytes" in done.stderr


def test_every_file_declares_its_size():
    assert MNIST.files[0].size == 16 + 60_000 * 28 * 28
    assert {part.size for part in cifar10.FILES} == {10_000 * 3073}


def test_a_part_may_be_as_large_as_it_says(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"12345"))
    assert read_unpacked(tmp_path / "x.gz", 5) == b"12345"
    with pytest.raises(DataError, match=r"x\.gz unpacks to more than 4 bytes"):
        read_unpacked(tmp_path / "x.gz", 4)


def write_tar_gz(file, *members):
    with tarfile.open(file, "w:gz") as made:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))


def test_an_archive_that_unpacks_to_more_than_it_should_is_refused_with_the_limit(tmp_path):
    write_tar_gz(tmp_path / "x.tar.gz", ("a", bytes(600)), ("b", bytes(600)))
    assert [name for name, _ in tar_members(tmp_path / "x.tar.gz", 1200)] == ["a", "b"]
    with pytest.raises(DataError, match=r"x\.tar\.gz unpacks to more than 1,199 bytes"):
        list(tar_members(tmp_path / "x.tar.gz", 1199))


@pytest.mark.parametrize("unpack", [cifar10.unpack_archive, imdb.unpack_archive])
@pytest.mark.parametrize("name", ["train/pos/0_9.txt", "data_batch_1.bin", "pax"])
def test_a_member_that_claims_gigabytes_is_refused_before_it_is_read(tmp_path, unpack, name):
    member = tarfile.TarInfo(name)
    member.size = 2**33
    member.type = tarfile.XHDTYPE if name == "pax" else tarfile.REGTYPE
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT)))
    with pytest.raises(DataError, match=r"x\.tar\.gz unpacks to more than [\d,]+ bytes"):
        unpack(tmp_path / "x.tar.gz")


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"label": 1e999, "text": ""}', b'{"label": 1}', b"[]", b"\xff", b'{"label": [], "text": 1}'],
)
def test_reviews_that_are_no_reviews_are_damage(tmp_path, line):
    with pytest.raises(DataError, match="is damaged"):
        verify_checksum(imdb.IMDB, imdb.FILES[0], line, tmp_path / "train.jsonl")
