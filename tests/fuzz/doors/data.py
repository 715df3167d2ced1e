"""Raw data files: packed, truncated, or something else altogether."""

import functools
import gzip
import io
import json
import lzma
import struct
import tarfile
from random import Random

from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import damage_bytes, replace_file_by_other_kind

BOMB = 64 * 2**20
"""Bytes that a small packed file may unpack to; repeated, it is too much for any limit."""


def _idx_file(dimensions: tuple[int, ...], content: bytes) -> bytes:
    return struct.pack(">HBB", 0, 8, len(dimensions)) + struct.pack(f">{len(dimensions)}I", *dimensions) + content


@functools.cache
def _small_dataset_files() -> dict[str, bytes]:
    """A few examples of each set, as their files would have them."""
    row = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, US"
    )
    review = json.dumps({"label": 1, "text": "A <br /> good film."})
    return {
        "mnist/train-images-idx3-ubyte": _idx_file((2, 28, 28), bytes(2 * 784)),
        "mnist/train-labels-idx1-ubyte": _idx_file((2,), bytes(2)),
        "mnist/t10k-images-idx3-ubyte": _idx_file((2, 28, 28), bytes(2 * 784)),
        "mnist/t10k-labels-idx1-ubyte": _idx_file((2,), bytes(2)),
        "adult/adult.data": f"{row}, <=50K\n{row}, >50K\n".encode(),
        "adult/adult.test": f"|1x3\n{row}, <=50K.\n".encode(),
        "cifar10/data_batch_1.bin": bytes(3073 * 2),
        "imdb/train.jsonl": f"{review}\n{review}\n".encode(),
        "imdb/test.jsonl": f"{review}\n".encode(),
    }


@functools.cache
def bombs() -> tuple[bytes, bytes]:
    """Small files, .gz and .xz, that unpack to gigabytes."""
    block = bytes(BOMB)
    return gzip.compress(block, mtime=0) * 64, lzma.compress(block) * 64


def _compress(rng: Random, content: bytes, ending: str) -> bytes:
    if rng.random() < 0.02 and ending:
        return bombs()[ending == ".xz"]
    packed = (
        gzip.compress(content, mtime=0) if ending == ".gz" else lzma.compress(content) if ending == ".xz" else content
    )
    return damage_bytes(rng, packed) if rng.random() < 0.5 else packed


@door("data", share=4, prepare=bombs)
def data_files(case: Case) -> None:
    """Altered files of data sets, plain and packed, by `data status` and `data fetch`."""
    rng = case.rng
    names = rng.sample(list(_small_dataset_files()), rng.choice((1, 2, 4)))
    for name in names:
        content = _small_dataset_files()[name]
        content = damage_bytes(rng, content) if rng.random() < 0.5 else content
        ending = rng.choice(("", ".gz", ".gz", ".xz"))
        case.write(f"data/{name}{ending}", _compress(rng, content, ending))
        if rng.random() < 0.05:
            replace_file_by_other_kind(rng, case.folder / f"data/{name}{ending}", case.world.outside)
    if rng.random() < 0.7:
        case.command("data", "status", "--data-dir", "data")
        return
    chosen = rng.choice(("mnist", "adult", "cifar10", "imdb", "all", "none", ""))
    archive = {"cifar10": "cifar-10-binary.tar.gz", "imdb": "aclImdb_v1.tar.gz"}.get(chosen)
    if archive:
        case.write(f"data/{chosen}/{archive}", _hostile_tar(rng))
    case.command("data", "fetch", chosen, "--data-dir", "data", writes=["data"])


def _hostile_tar(rng: Random) -> bytes:
    """A tar archive with members that are links, reach outside, or are damaged."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in rng.sample(
            ("data_batch_1.bin", "../../outside/secret.txt", "/etc/x", "train/pos/1_9.txt", "test/neg/0_1.txt"), 3
        ):
            member = tarfile.TarInfo(name)
            content = rng.randbytes(rng.choice((0, 10, 3073)))
            member.size = len(content)
            member.type = rng.choice(
                (tarfile.REGTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
            )
            member.linkname = "../../outside/secret.txt"
            archive.addfile(member, io.BytesIO(content))
    content = gzip.compress(stream.getvalue(), mtime=0)
    return damage_bytes(rng, content) if rng.random() < 0.5 else content


@door("prepared", share=2)
def prepared_arrays(case: Case) -> None:
    """Altered arrays that were prepared from a data set before, by the reader of data sets."""
    import numpy as np

    from fflbench.data import cache
    from fflbench.data.adult import ADULT

    rng = case.rng
    place = f"data/adult/.prepared/{ADULT.cache_key}"
    import hashlib

    sums = {}
    for name, array in (
        ("x_train", np.zeros((2, 10), np.float32)),
        ("y_train", np.zeros(2, np.int64)),
        ("x_test", np.zeros((1, 10), np.float32)),
        ("y_test", np.zeros(1, np.int64)),
    ):
        stream = io.BytesIO()
        np.save(stream, array)
        content = stream.getvalue()
        if rng.random() < 0.3:
            content = damage_bytes(rng, content)
        sums[name] = hashlib.sha256(content).hexdigest()
        case.write(f"{place}/{name}.npy", content)
    about = json.dumps({"sha256": sums, "facts": {}}).encode()
    case.write(f"{place}/about.json", damage_bytes(rng, about) if rng.random() < 0.4 else about)
    if rng.random() < 0.1:
        replace_file_by_other_kind(
            rng, case.folder / place / rng.choice(("about.json", "x_train.npy")), case.world.outside
        )
    case.call(cache.load, ADULT)
