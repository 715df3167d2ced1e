"""Options of every command."""

import functools
from random import Random
from typing import Any

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import hostile_value, shell_argument, typed_text

SKIPPED = ("fetch",)
"""Commands that a door of their own has, or that need the network."""

VALUES = (
    *("0", "-1", "1", "3", "99999999999", "1e400", "nan", "1GB", "0.5K", "30m", "1e9d", "9" * 400 + "h", "cpu", "cuda"),
    *("cuda:99", "ray", "local", "auto", "10.0.0.1:6379", ":1", "tasks", "quick", "x.toml", "x.json", "x.py", "json"),
)


@functools.cache
def _commands() -> tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...]:
    """Every command with its options and arguments, as the command line itself knows them."""
    import typer

    from fflbench.cli import app

    found: list[tuple[tuple[str, ...], tuple[Any, ...]]] = []

    def visit(path: tuple[str, ...], command: Any) -> None:
        for name, inner in sorted(getattr(command, "commands", {}).items()):
            visit((*path, name), inner)
        if not hasattr(command, "commands") and path[-1] not in SKIPPED:
            found.append((path, tuple(command.params)))

    visit((), typer.main.get_command(app))
    return tuple(found)


@door("options", share=14, prepare=_commands)
def options(case: Case) -> None:
    """Every command with options and arguments of the wrong kind."""
    rng = case.rng
    path, known = rng.choice(_commands())
    case.write("small.toml", fixtures.SMALL)
    case.write("folder/file.txt", "x")
    given: list[str] = list(path)
    for parameter in known:
        chance = 0.9 if parameter.param_type_name == "argument" else 0.15
        if rng.random() > chance:
            continue
        if parameter.param_type_name == "option":
            given.append(max(parameter.opts, key=len))
        if not getattr(parameter, "is_flag", False):
            given.append(_value(rng, parameter))
    if path == ("run",):
        given.append("--dry-run")
    if rng.random() < 0.1:
        given.insert(rng.randrange(len(given)), _text(rng))
    # What a user names as the place for results may be written; only names inside of the folder are given.
    case.command(*given, writes=["."])


def _value(rng: Random, parameter: Any) -> str:
    if parameter.name in ("out", "plot"):
        return rng.choice(
            ("out", "folder", "folder/file.txt", "folder/file.txt/x", "n" * 300, "small.toml", "", "out.svg")
        )
    if parameter.name in ("suite", "cell", "folder") and rng.random() < 0.5:
        return rng.choice(("small.toml", "quick", "folder", ".", "folder/file.txt", "missing.json"))
    return rng.choice(VALUES) if rng.random() < 0.4 else _text(rng)


def _text(rng: Random) -> str:
    return shell_argument(typed_text(hostile_value(rng, fixtures.vocabulary())))
