"""Text from records, suites, plugins and exceptions is shown on a terminal, never obeyed by it."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fflbench.execution.run_status import FILE, FailedCell, RunningCell, RunStatus
from fflbench.records.store import write_atomically

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\r\x7f\b"
FORBIDDEN = [*map(chr, [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])]

SUITE = f"""
title = {json.dumps("Own " + EVIL)}
description = {json.dumps("Shows " + EVIL)}
tasks = ["digits-mlp"]
attacks = ["none"]
defenses = ["plain", "throws"]
seeds = [0]
[overrides]
rounds = 1
participants = 4
per_round = 2
[defense.plain]
use = "fedavg"
"""

PLUGIN = f'''
{("Nobody " + EVIL)!r}
import warnings
from typing import Annotated
from fflbench.registration import rule, task
from fflbench.tasks import Task

@rule("throws", title={("Throws " + EVIL)!r})
def throws(updates, word: Annotated[str, {EVIL!r}] = {EVIL!r}):
    {("Throws " + EVIL)!r}
    warnings.warn({("warned " + EVIL)!r})
    raise RuntimeError({("raised " + EVIL)!r})

@task("unbuildable", title={("Unbuildable " + EVIL)!r})
class Unbuildable(Task):
    """Has no model."""
    classes = ("a", "b")
    def model(self):
        raise RuntimeError({("no model " + EVIL)!r})
'''


def obeyed(output):
    """Return the sequences that a terminal would obey."""
    return sorted({character for character in output.decode() if character in FORBIDDEN})


@pytest.fixture
def command(tmp_path):
    (tmp_path / "own.toml").write_text(SUITE.encode("utf-8").decode("utf-8"), "utf-8")
    (tmp_path / "plugin.py").write_text(PLUGIN, "utf-8")
    (tmp_path / "broken.py").write_text(f"raise RuntimeError({EVIL!r})", "utf-8")

    def run(*arguments, code=None):
        done = subprocess.run([sys.executable, "-m", "fflbench", *arguments], cwd=tmp_path, capture_output=True)
        assert code is None or done.returncode == code, done.stderr.decode()
        assert obeyed(done.stdout) == []
        assert obeyed(done.stderr) == []
        assert b"Traceback" not in done.stderr
        return done.stdout.decode(), done.stderr.decode()

    run.folder = tmp_path
    return run


def test_a_run_and_what_is_read_from_it_obey_no_text(command):
    options = ("own.toml", "--plugin", "plugin.py")
    command("run", *options, "--dry-run", code=0)
    _, err = command("run", *options, code=1)
    assert "raised ␛]0;owned␇" in err
    command("run", *options, "--force", "--log-json", code=1)
    shown = [command("show", str(file), code=0)[0] for file in (command.folder / "results/own").glob("*.json")]
    assert any("raised ␛]0;owned␇" in out for out in shown)
    command("status", "results/own", code=0)
    command("status", "results", "--json", code=0)
    command("leaderboard", "results/own")


@pytest.mark.parametrize("what", ["defenses", "tasks", "suites"])
def test_lists_obey_no_text(command, what):
    command("list", what, "--plugin", "plugin.py", "--plugin", "broken.py", code=1)
    command("list", what, "--plugin", "plugin.py", "--json")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", EVIL),
        ("run", f"{EVIL}.toml"),
        ("run", f"{EVIL}.json"),
        ("run", "quick", "--set", f"{EVIL}=3"),
        ("run", "quick", "--set", f"tasks=[{EVIL}"),
        ("run", "quick", "--seeds", EVIL),
        ("run", "own.toml", "--plugin", "broken.py"),
        ("run", "quick", f"--{EVIL}"),
        (EVIL,),
        ("list", EVIL),
        ("show", EVIL),
        ("status", EVIL),
        ("leaderboard", EVIL),
        ("verify", EVIL),
        ("data", "fetch", EVIL),
        ("attack", EVIL, "--model", EVIL, "--gradient", EVIL, "--shape", "3"),
        ("attack", "dlg", "--model", EVIL, "--gradient", EVIL, "--shape", "3"),
        ("attack", "dlg", "--model", "a:b", "--gradient", EVIL, "--shape", EVIL),
    ],
)
def test_errors_obey_no_text(command, arguments):
    _, err = command(*arguments, code=2)
    assert err


def test_a_status_file_is_shown_and_not_obeyed(command):
    now = RunStatus(
        suite=EVIL,
        command=EVIL,
        host=EVIL,
        process=1,
        state="running",
        cells=3,
        before=0,
        running=[RunningCell(cell=EVIL, name=EVIL, where=EVIL, rounds=3)],
        failed=[FailedCell(cell=EVIL, name=EVIL, reason=EVIL, command=EVIL)],
    )
    write_atomically(command.folder / "results" / FILE, now.model_dump_json().encode())
    out, _ = command("status", "results", code=0)
    assert "␛]0;owned␇" in out
    out, _ = command("status", "results", "--json", code=0)
    assert json.loads(out)["host"] == EVIL


def test_text_that_is_no_text_or_not_in_the_terminals_encoding_is_spelled_out(command, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    out, _ = command("list", "defenses", "--plugin", "plugin.py", code=0)
    assert "throws" in out
    _, err = command("run", os.fsdecode(b"caf\xe9"), code=2)
    assert "caf\\udce9" in err


def output_on_a_terminal(folder, columns, *arguments, code):
    """Return what a command writes on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (20, columns))
    process = subprocess.Popen(
        [sys.executable, "-m", "fflbench", *arguments],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        | {"TERM": "xterm-256color"},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass
    os.close(ours)
    assert process.wait() == code
    return shown


def test_colours_and_bars_of_ours_still_reach_a_terminal(tmp_path):
    (tmp_path / "own.toml").write_text(SUITE, "utf-8")
    (tmp_path / "plugin.py").write_text(PLUGIN, "utf-8")
    shown = output_on_a_terminal(tmp_path, 160, "run", "own.toml", "--plugin", "plugin.py", code=1)
    assert b"\x1b[1m" in shown
    assert b"\x1b[?25l" in shown
    for piece in (b"\x1b]0;", b"\x07", b"\x1b[31m\xc2\x9b", "\u202e".encode(), b"\x7f", b"\b"):
        assert piece not in shown
    assert "␛]0;owned".encode() in shown


JOINED = """
tasks = ["digits-mlp"]
attacks = ["none", "label-flipping"]
defenses = ["fedavg", "fragment-exchange + clipping + median"]
seeds = [0]
[overrides]
rounds = 1
[[also]]
defenses = ["fedavg"]
[also.measure]
use = "communication"
"""


def test_a_run_ends_with_the_joined_table_and_breaks_no_word(tmp_path):
    (tmp_path / "own.toml").write_text(JOINED, "utf-8")
    first = output_on_a_terminal(tmp_path, 80, "run", "own.toml", code=0).decode()
    assert re.search(r"cells: \d running +(\x1b\[[\d;]*m)*[━╸╺]", first)
    page = set((tmp_path / "results/own/tables.md").read_text().replace("\\", "").split())
    for columns in (80, 120):
        shown = output_on_a_terminal(tmp_path, columns, "run", "own.toml", code=0).decode()
        plan, title, *lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown).splitlines()
        assert plan == "own: 5 cells, 5 done already, 0 to run"
        assert title == "digits-mlp: all measures"
        assert max(map(len, lines)) <= columns
        end = next(place for place, line in enumerate(lines) if line.startswith("0 cells run in"))
        assert {word for line in lines[:end] for word in line.split() if word.strip("─⚑")} <= page
        assert re.fullmatch(
            r"0 cells run in \d+ s; records are in results/own, all tables in results/own/tables.md "
            r"\(--tables all prints \d+ more\) next:",
            " ".join(lines[end:-1]),
        )
        assert lines[-1] == "  fflbench leaderboard results/own"


def test_lines_are_wrapped_between_words_and_commands_stay_whole():
    from fflbench.terminal import wrap_lines

    text = "cells-that-failed are listed\n  alone: fflbench run a-long-command --out somewhere\nx"
    assert wrap_lines(text, 12).splitlines() == [
        *("cells-that-failed", "are listed"),
        "  alone: fflbench run a-long-command --out somewhere",
        "x",
    ]


@given(st.text())
def test_nothing_is_left_to_obey_and_plain_text_stays(text):
    from fflbench.terminal import replace_control_characters

    assert not set(replace_control_characters(text)) & set(FORBIDDEN)
    replace_control_characters(text).encode()
    plain = "".join(character for character in text if character.isprintable() or character in "\n\t")
    assert replace_control_characters(plain) == plain


def test_a_safe_stream_is_otherwise_the_stream():
    from fflbench.terminal import SafeStream

    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    safe = SafeStream(stream)
    assert safe.write("a\x1b") == 2
    safe.writelines(["b\n", "\x1b"])
    safe.flush()
    assert stream.buffer.getvalue().decode() == "a␛b\n␛"
    assert safe.encoding == "utf-8"
    assert not safe.isatty()
