"""Folders of records as runs and leaderboards keep them, and their texts."""

import hashlib
import json
import lzma

from typer.testing import CliRunner

from fflbench.cli import app
from fflbench.records import packed
from fflbench.records.store import Store


def invoke(*arguments):
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def written(folder, records):
    """A folder as a run leaves it."""
    store = Store(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for each in records:
        store.write(each)
    return folder


def content_of(told):
    """A record's content as another tool would write it, without the digest of ours."""
    content = json.loads(told.json_text())
    del content["digest"]
    return content


def with_digest(content):
    """The text of a record's file, with the digest that its content has now."""
    content = {name: value for name, value in content.items() if name != "digest"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(canonical.encode()).hexdigest()})


def lines_of(board):
    """The lines of a leaderboard's records."""
    return lzma.decompress((board / packed.FILE).read_bytes()).splitlines(keepends=True)


def write_lines(board, lines):
    """Pack other lines."""
    (board / packed.FILE).write_bytes(lzma.compress(b"".join(lines)))
