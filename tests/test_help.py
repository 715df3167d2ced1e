"""Every command explains itself: `--help` of each, found from the commands themselves."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from fflbench.cli import app, main

ROOT = Path(__file__).parents[1]


def commands(command, path=()):
    """The path of a command and of everything under it."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("path", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_every_command_explains_itself(capsys, path, option):
    with pytest.raises(SystemExit) as ended:
        main([*path, option])
    printed = capsys.readouterr()
    assert ended.value.code == 0
    assert printed.err == ""
    assert "Usage:" in printed.out
    assert "Traceback" not in printed.out


def test_the_commands_are_found():
    found = {" ".join(path) for path in commands(typer.main.get_command(app))}
    assert {"", "run", "list", "leaderboard", "data", "data status", "data fetch"} <= found


def programs():
    """Benchmarks that can be called: the package itself, and modules that do something when run."""
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    return ["benchmarks"] + [
        f"benchmarks.{file.stem}" for file in files if 'if __name__ == "__main__"' in file.read_text()
    ]


@pytest.mark.parametrize("module", programs())
def test_every_benchmark_explains_itself(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
