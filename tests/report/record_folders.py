"""Folders of records as runs and leaderboards keep them, and their texts."""

import hashlib
import json
import lzma
import re
import subprocess
import sys

from typer.testing import CliRunner

from fflbench.cli import app
from fflbench.records import jsonl_file, npz_file
from fflbench.records.record import cell_id
from fflbench.records.store import Store


def invoke_command(*arguments):
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_run_folder(folder, records):
    """A folder as a run leaves it."""
    store = Store(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for each in records:
        store.write(each)
    return folder


def record_content(record):
    """A record's content as another tool would write it, without the digest of ours."""
    content = json.loads(record.json_text())
    del content["digest"]
    return content


def record_text_with_digest(content):
    """The text of a record's file, with the digest that its content has now."""
    content = {name: value for name, value in content.items() if name != "digest"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(canonical.encode()).hexdigest()})


def read_record_lines(board):
    """The lines of a leaderboard's records."""
    return lzma.decompress((board / jsonl_file.FILE).read_bytes()).splitlines(keepends=True)


def write_record_lines(board, lines):
    """Pack other lines."""
    (board / jsonl_file.FILE).write_bytes(lzma.compress(b"".join(lines)))


def run_fflbench(*arguments, **settings):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "fflbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **settings)


def refusal_message(completed):
    """The one sentence on standard error of a command that ended with exit code 2."""
    assert completed.returncode == 2, completed.stdout + completed.stderr
    assert "Traceback" not in completed.stderr
    (line,) = [line for line in completed.stderr.splitlines() if line.startswith("fflbench: ")]
    return line


def folder_content(folder):
    """Everything in a folder: names, kinds and contents."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in folder.rglob("*")
    }


def write_record(folder, content, packed_arrays=b""):
    """Write a record's content with the id and digests that it has now, and its arrays."""
    content["id"] = cell_id(content["configuration"])
    content["arrays"] = npz_file.arrays_digest(packed_arrays)
    (folder / f"{content['id']}.json").write_text(record_text_with_digest(content))
    if packed_arrays:
        (folder / f"{content['id']}.npz").write_bytes(packed_arrays)


def damage_record_text(text, kind):
    """The text of a record's file after one kind of damage."""
    if kind == "truncated":
        return text[: len(text) // 2]
    if kind == "altered":
        return re.sub(r'"accuracy": ?0\.', '"accuracy":0.9', text)
    if kind == "without digest":
        return re.sub(r',\s*"digest": ?"\w+"', "", text)
    if kind == "twice":
        return f"{text}{text}"
    return re.sub(r'"schema_version": ?2', '"schema_version": 7', text)
