import json
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fflbench import load
from fflbench.errors import RecordError
from fflbench.records import Record, Store
from fflbench.records.record import cell_id
from fflbench.records.store import read_record, write_atomically

CONFIGURATION = {
    **{kind: {"name": "x", "parameters": {}} for kind in ("task", "attack")},
    "defense": {
        "transport": {"name": "plain", "parameters": {}},
        "preaggregations": [],
        "rule": {"name": "x", "parameters": {}},
    },
    "measure": {"name": "robustness", "parameters": {}},
    "seed": 0,
}
METRICS_OF_A_CELL = {
    **dict.fromkeys(("test_loss", "accuracy", "source_accuracy", "attack_success_rate"), 0.9),
    "goal_source_accuracy": [],
    "goal_attack_success_rate": [],
    "class_accuracy": [0.9, None],
    "diverged": False,
}
FIELDS = {
    "id": cell_id(CONFIGURATION),
    "suite": "own",
    "labels": {"task": "digits-mlp", "measure": "robustness", "attack": "none", "defense": "fedavg"},
    "configuration": CONFIGURATION,
    "status": "done",
    "metrics": METRICS_OF_A_CELL,
    "facts": {"targeted": False, "attackers": [], "flags": []},
    "manifest": {},
}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "own")


def test_a_record_comes_back_as_it_was(store):
    record = Record(**FIELDS)
    store.write(record)
    assert store.read(record.id) == record
    assert load(store.folder.parent) == [record]
    assert [file.name for file in store.folder.iterdir()] == [f"{record.id}.json"]


def test_a_record_that_was_altered_after_it_was_written_is_refused(store):
    """By any single bit: either it says the same, or it is not a record."""
    record = Record(**FIELDS)
    store.write(record)
    content = store.record_file(record.id).read_bytes()
    assert Record.parse(content.replace(b'"suite": "own"', b'"suite" :"own"')) == record
    with pytest.raises(ValueError, match="it is not what its digest says"):
        Record.parse(content.replace(b'"accuracy": 0.9', b'"accuracy": 0.8'))
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with suppress(ValueError):
            assert Record.parse(bytes(damaged)) == record


def test_a_write_that_breaks_off_leaves_what_was_there(store, monkeypatch):
    store.write(Record(**FIELDS))
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        store.write(Record(**{**FIELDS, "metrics": METRICS_OF_A_CELL | {"accuracy": 0.1}}))
    assert store.read(FIELDS["id"]).metrics["accuracy"] == 0.9
    assert len(list(store.folder.iterdir())) == 1


def test_a_record_is_on_the_disk_before_it_counts(store, monkeypatch):
    """Its content first, then its name, then the folder that knows the name."""
    happened, replace = [], Path.replace

    def fsync(handle):
        happened.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")

    def named(self, target):
        happened.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", named)
    store.write(Record(**FIELDS))
    assert happened == ["content", "name", "folder"]


def test_what_a_killed_run_left_half_written_is_swept_up(store):
    store.folder.mkdir()
    (store.folder / ".0123456789abcdef.json.x7.new").write_text("{")
    with store.locked():
        assert [file.name for file in store.folder.iterdir()] == [".lock"]


def test_a_second_writer_is_refused_and_a_dead_one_does_not_block(store):
    code = f"""
import os, pathlib
from fflbench.records import Store
with Store(pathlib.Path({str(store.folder)!r})).locked():
    os._exit(1)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    other = Store(store.folder)
    with (
        store.locked(),
        pytest.raises(RecordError, match="another run is writing to"),
        other.locked(),
    ):
        pass


def test_a_full_disk_is_one_sentence(store):
    with (
        pytest.raises(RecordError, match=r"No space left on device; mend that or choose another --out"),
        store.locked(),
    ):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is damaged"),
        ('{"id": ', "is damaged"),
        ("[]", "is no record"),
        (json.dumps({**FIELDS, "status": "fine"}), "is no record: status"),
        (json.dumps({**FIELDS, "extra": 1}), "is no record: extra"),
        (json.dumps({**FIELDS, "id": "fedcba9876543210"}), "is no record: .*the id is not that of the configuration"),
        (json.dumps({**FIELDS, "configuration": {**CONFIGURATION, "seed": 1}}), "is no record: .*the id is not that"),
        (json.dumps({**FIELDS, "configuration": {}}), "is no record: .*no task"),
        (json.dumps({**FIELDS, "labels": {}}), "is no record: .*no task with a label"),
        (json.dumps({**FIELDS, "metrics": {}}), "is no record: .*without metrics"),
        (json.dumps({**FIELDS, "metrics": METRICS_OF_A_CELL | {"accuracy": "x"}}), "is no record: metrics"),
        (
            json.dumps({**FIELDS, "metrics": METRICS_OF_A_CELL | {"accuracy": float("nan")}}),
            "is damaged: NaN is no number",
        ),
        (json.dumps({**FIELDS, "schema_version": 1}), "is no record: schema_version"),
    ],
)
def test_a_damaged_record_is_named_and_counts_as_none(store, content, reason):
    store.folder.mkdir()
    store.record_file(FIELDS["id"]).write_text(content)
    with pytest.warns(UserWarning, match=f"{FIELDS['id']}.json {reason}.*runs again"):
        assert store.read(FIELDS["id"]) is None
    with pytest.warns(UserWarning, match="is left out"):
        assert load(store.folder) == []


def test_numbers_that_are_not_finite_never_reach_a_file():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Record(**{**FIELDS, "metrics": METRICS_OF_A_CELL | {"accuracy": float("nan")}}).json_text()


def test_a_folder_where_a_record_belongs_is_named_before_anything_runs(store):
    store.record_file(FIELDS["id"]).mkdir(parents=True)
    with pytest.raises(RecordError, match=f"{FIELDS['id']}.json is a folder where a record belongs"):
        store.read(FIELDS["id"])


def test_a_pipe_where_a_record_belongs_counts_as_none_and_is_replaced(store):
    store.folder.mkdir()
    os.mkfifo(store.record_file(FIELDS["id"]))
    with pytest.warns(UserWarning, match="is a named pipe, not a file; its cell runs again"):
        assert store.read(FIELDS["id"]) is None
    store.write(Record(**FIELDS))
    assert store.read(FIELDS["id"]) == Record(**FIELDS)


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(RecordError, match="there is no folder"):
        load(tmp_path / "nowhere")


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file/own")
    with (
        pytest.raises(RecordError, match=r"results cannot be kept in .*choose another --out"),
        store.locked(),
    ):
        pass


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_no_mutated_record_ends_in_a_traceback(tmp_path, data):
    text = Record(**FIELDS).json_text()
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    mutated = text[:start] + data.draw(st.text('{}[]",:0aé\x00', max_size=5)) + text[end:]
    file = tmp_path / f"{FIELDS['id']}.json"
    write_atomically(file, mutated.encode())
    try:
        read_record(file)
    except RecordError as error:
        assert file.name in str(error)  # noqa: PT017


def test_a_named_pipe_in_the_place_of_the_lock_keeps_nobody_waiting(store):
    store.folder.mkdir()
    os.mkfifo(store.folder / ".lock")
    assert not store.in_use


def test_files_that_are_being_staged_are_no_records(store):
    store.write(Record(**FIELDS))
    Store(store.folder / ".fflbench-stage" / "records").write(Record(**FIELDS))
    assert len(load(store.folder)) == 1


def test_a_name_too_long_for_a_folder_is_no_folder():
    with pytest.raises(RecordError, match="there is no folder aaa"):
        load("a" * 300)
