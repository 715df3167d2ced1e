"""Options that several commands share, and values of options read from text."""

import os
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fflbench import registry
from fflbench.errors import FflbenchError, escape_undecodable
from fflbench.plugin_parameters import parse_toml_value

N = TypeVar("N", int, float)


class ListedKind(StrEnum):
    """Kinds of plugins as `fflbench list` takes them: `Kind` in the plural."""

    ATTACKS = "attacks"
    PRIVACY_ATTACKS = "privacy-attacks"
    DEFENSES = "defenses"
    RULES = "rules"
    PREAGGREGATIONS = "preaggregations"
    TRANSPORTS = "transports"
    OBSERVATIONS = "observations"
    TASKS = "tasks"
    MEASURES = "measures"
    ENGINES = "engines"
    EXECUTORS = "executors"
    SUITES = "suites"


class NewKind(StrEnum):
    """Kinds of plugins that `fflbench new` writes."""

    RULE = "rule"
    RULE_WITH_MEMORY = "rule-with-memory"
    PREAGGREGATION = "preaggregation"
    TRANSPORT = "transport"
    ATTACK = "attack"
    ATTACK_WITH_MEMORY = "attack-with-memory"
    ADAPTIVE_ATTACK = "adaptive-attack"
    TRAINING_ATTACK = "training-attack"
    BACKDOOR = "backdoor"
    RECONSTRUCTION_ATTACK = "reconstruction-attack"
    MEMBERSHIP_ATTACK = "membership-attack"
    OBSERVATION = "observation"
    TASK = "task"
    MEASURE = "measure"
    ENGINE = "engine"


class ShownTables(StrEnum):
    """Tables that `fflbench run` prints."""

    SUMMARY = "summary"
    ALL = "all"


Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A Python file or dotted module to load first; may be given several times."),
]

Out = Annotated[Path, typer.Option("--out", help="Folder for results: records are in OUT/SUITE.")]


def _set_data_dir_variable(folder: Path | None) -> Path | None:
    # The environment reaches worker processes and plugins alike.
    if folder is not None:
        os.environ["FFLBENCH_DATA"] = str(folder)
    return folder


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of data sets, with one folder per set (default: $FFLBENCH_DATA, else the user cache).",
        callback=_set_data_dir_variable,
    ),
]


def command_line() -> str:
    """Return this command as the user could type it again."""
    return escape_undecodable(shlex.join(["fflbench", *sys.argv[1:]]))


def load_plugins(plugins: Sequence[str] | None) -> None:
    """Import plugins of `--plugin`; raise an error for the first that fails."""
    for failure in registry.load_named(plugins or ()):
        raise FflbenchError(str(failure))


def parse_seeds(text: str | None) -> list[int] | None:
    """Return the seeds of a text such as 0,1,2."""
    if text is None:
        return None
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f'"{text}" is not a list of integers such as 0,1,2') from None


def parse_numbers(text: str | None, option: str, kind: type[N]) -> list[N]:
    """Return the numbers of a text such as 3,32,32."""
    try:
        values = [kind(part) for part in (text or "").split(",")] if text else []
    except ValueError:
        raise FflbenchError(f'{option} takes numbers with commas between, as in 3,32,32, not "{text}"') from None
    if option == "--shape" and not all(size > 0 for size in values):
        raise FflbenchError(f"{option} {text}: every size must be at least 1")
    return values


def parse_key_values(settings: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Return the names and values of texts such as steps=500."""
    pairs = [setting.partition("=") for setting in settings]
    for key, equals, _ in pairs:
        if not (key and equals):
            raise FflbenchError(f'--set takes key=value, as in --set steps=500, not "{key}"')
    return tuple((key.strip(), parse_toml_value(text.strip())) for key, _, text in pairs)
