"""Files that anyone may have written: refused by name, in a sentence, before they take memory or time."""

import io
import os
import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from fflbench.errors import RecordError
from fflbench.records import npz_file
from fflbench.untrusted_files import read_bytes, read_json


def refusal_message(file, limit=2**20):
    with pytest.raises(RecordError) as caught:
        read_json(file, limit)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some.json"


def test_json_is_read_as_it_was_written(file):
    file.write_text('{"a": [1, -2.5e3, null, true, "\\u00e9\\ud83d\\ude00 é"], "b": 9223372036854775807}')
    assert read_json(file, 2**20) == {"a": [1, -2500.0, None, True, "é😀 é"], "b": 2**63 - 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is damaged"),
        (b'{"a": ', "is damaged"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "1e999 is too large"),
        (b'{"a": -1e999}', "-1e999 is too large"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "an integer of 5001 digits"),
        (b'{"a": 18446744073709551616}', "an integer beyond 64 bits"),
        (b'{"a": "\\ud800"}', "a lone surrogate"),
        (b'{"\\udfff": 1}', "a lone surrogate"),
        (b'{"a": "\xed\xa0\x80"}', "is damaged"),
        (b'{"a": "\xff"}', "is damaged"),
        (b"[" * 100 + b"]" * 100, "nested more than 64 deep"),
        (b"[" * 200_000, "nested"),
        (b'{"a":' * 200_000, "nested"),
    ],
)
def test_what_no_record_may_hold_is_refused(file, text, reason):
    file.write_bytes(text)
    assert reason in refusal_message(file)


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(file):
    with file.open("wb") as stream:
        stream.truncate(2**40)
    tracemalloc.start()
    try:
        assert "larger than 1,048,576 bytes" in refusal_message(file)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_that_does_not_tell_its_length_is_read_to_the_limit_and_no_further(tmp_path):
    # Files in /proc say that they are empty.
    with pytest.raises(RecordError, match="larger than 3 bytes"):
        read_bytes(tmp_path.__class__("/proc/self/status"), 3)


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("folder", lambda file: file.mkdir()),
        ("named pipe", os.mkfifo),
        ("device", lambda file: file.symlink_to("/dev/zero")),
        ("cannot be read", lambda file: file.symlink_to(file)),
        ("cannot be read", lambda file: None),
    ],
)
def test_what_is_no_file_is_named_and_never_waited_for(file, kind, make):
    make(file)
    assert kind in refusal_message(file)


def test_a_pipe_named_like_a_record_does_not_hang_any_command(tmp_path):
    os.mkfifo(tmp_path / "0123456789abcdef.json")
    for command in (
        ["leaderboard", str(tmp_path)],
        ["status", str(tmp_path)],
        ["show", str(tmp_path / "0123456789abcdef.json")],
        ["run", str(tmp_path / "0123456789abcdef.json")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "fflbench", *command], capture_output=True, text=True, timeout=60, cwd=tmp_path
        )
        assert done.returncode == 2
        assert "0123456789abcdef.json is a named pipe, not a file" in done.stderr
        assert "Traceback" not in done.stderr


# Arrays

SOUND = {"originals": np.zeros((1, 2, 1, 4), np.float32), "found": np.ones((1, 2, 1, 4), np.float32)}


def test_arrays_come_back_as_they_were():
    found = npz_file.unpack_arrays(
        npz_file.pack_arrays(SOUND | {"other order": np.asfortranarray(np.arange(6).reshape(2, 3))})
    )
    assert {name: array.tolist() for name, array in found.items()} == {
        **{name: array.tolist() for name, array in SOUND.items()},
        "other order": [[0, 1, 2], [3, 4, 5]],
    }


def zip_content(*members, compression=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as packed, warnings.catch_warnings():
        # One name twice is what some of these are about.
        warnings.simplefilter("ignore")
        for name, content in members:
            packed.writestr(name, content)
    return stream.getvalue()


def npy_content(array, **changes):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    content = stream.getvalue()
    for old, new in changes.items():
        assert old.encode() in content
        content = content.replace(old.encode(), new)
    return content


def npy_header(shape, dtype="<f4"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def encrypted(content):
    """Flagged as encrypted, in the directory and before the member."""
    damaged = bytearray(content)
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        damaged[content.index(signature) + place] |= 1
    return bytes(damaged)


def lying_about_size(content, size):
    """With another unpacked size in the directory and before the member."""
    damaged = bytearray(content)
    for signature, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.index(signature) + place
        damaged[start : start + 4] = size.to_bytes(4, "little")
    return bytes(damaged)


FLOATS = npy_content(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a zip"),
        (b"PK", "not a zip"),
        (zip_content(), "no arrays"),
        (encrypted(zip_content(("a.npy", FLOATS))), "encrypted"),
        (zip_content(("a.npy", FLOATS), ("a.npy", FLOATS)), "twice"),
        (zip_content(("a.txt", FLOATS)), "is no array"),
        (zip_content(("a.npy", b"")), "damaged"),
        (zip_content(("a.npy", FLOATS[:-1])), "holds fewer bytes"),
        (zip_content(("a.npy", FLOATS + b"x")), "holds more bytes"),
        (zip_content(("a.npy", npy_content(np.array([{}], object)))), "numbers"),
        (zip_content(("a.npy", npy_content(np.array(["text"])))), "numbers"),
        (zip_content(("a.npy", npy_content(np.zeros(2, "i4,f4")))), "numbers"),
        (zip_content(("a.npy", npy_header((10**6, 10**6)))), "1,000,000 bytes"),
        (zip_content(("a.npy", npy_header((-1, 4)))), "shape"),
        (zip_content(("a.npy", FLOATS), compression=zipfile.ZIP_LZMA), "compressed"),
        (lying_about_size(zip_content(("a.npy", npy_content(np.zeros(10**6)))), 200), "damaged"),
        (zip_content(*((f"{n}.npy", npy_content(np.zeros(10_000, np.float32))) for n in range(30))), "1,000,000 bytes"),
        (zip_content(*((f"{n}.npy", FLOATS) for n in range(200))), "more than 100 arrays"),
    ],
)
def test_arrays_that_are_not_what_they_claim_are_refused(content, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        npz_file.unpack_arrays(content, max_bytes=10**6)
    assert "\n" not in str(caught.value)


def test_arrays_that_unpack_to_too_much_take_no_memory():
    bomb = zip_content(("a.npy", npy_header((2**34,), "|u1") + bytes(2**26)))
    assert len(bomb) < 2**18
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="1,000,000 bytes"):
            npz_file.unpack_arrays(bomb, max_bytes=10**6)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def many_in_the_directory(count):
    """An archive of one member that its directory names many times."""
    content = zip_content(("a.npy", FLOATS))
    directory, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entries = content[directory:end] * count
    record = bytearray(content[end:])
    record[8:12] = 2 * min(count, 2**16 - 1).to_bytes(2, "little")
    record[12:16] = len(entries).to_bytes(4, "little")
    return content[:directory] + entries + bytes(record)


def test_a_directory_of_too_many_arrays_is_refused_before_it_is_read():
    content = many_in_the_directory(100_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 100 arrays"):
            npz_file.unpack_arrays(content)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_of_our_own_may_hold_any_number_of_arrays():
    many = {str(number): np.arange(number) for number in range(500)}
    assert npz_file.unpack_arrays(npz_file.pack_arrays(many), max_arrays=None).keys() == many.keys()
    with pytest.raises(ValueError, match="more than 499 arrays"):
        npz_file.unpack_arrays(npz_file.pack_arrays(many), max_arrays=499)


def test_no_flipped_bit_gives_other_arrays():
    content = npz_file.pack_arrays(SOUND)
    for place in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        try:
            found = npz_file.unpack_arrays(bytes(damaged))
        except ValueError:
            continue
        assert {name: array.tolist() for name, array in found.items() if name in SOUND} == {
            name: array.tolist() for name, array in SOUND.items() if name in found
        }
