"""Command `fflbench new`: write the file of a new plugin and its test, from an example that works."""

import builtins
import importlib.util
import io
import keyword
import re
import shlex
import tokenize
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from fflbench import registry
from fflbench.cli_options import NewKind
from fflbench.errors import FflbenchError
from fflbench.registry import Kind

EXAMPLES = {
    NewKind.RULE: (Kind.RULE, "smallest-norms"),
    NewKind.RULE_WITH_MEMORY: (Kind.RULE, "server-momentum"),
    NewKind.PREAGGREGATION: (Kind.PREAGGREGATION, "median-norm"),
    NewKind.TRANSPORT: (Kind.TRANSPORT, "half-precision"),
    NewKind.ATTACK: (Kind.ATTACK, "reversed-updates"),
    NewKind.ATTACK_WITH_MEMORY: (Kind.ATTACK, "accumulated-reversal"),
    NewKind.ADAPTIVE_ATTACK: (Kind.ATTACK, "harmful-direction"),
    NewKind.TRAINING_ATTACK: (Kind.ATTACK, "bounded-ascent"),
    NewKind.BACKDOOR: (Kind.ATTACK, "bright-corner"),
    NewKind.RECONSTRUCTION_ATTACK: (Kind.PRIVACY_ATTACK, "hill-climbing"),
    NewKind.MEMBERSHIP_ATTACK: (Kind.PRIVACY_ATTACK, "high-confidence"),
    NewKind.OBSERVATION: (Kind.OBSERVATION, "largest-submission"),
    NewKind.TASK: (Kind.TASK, "two-clouds"),
    NewKind.MEASURE: (Kind.MEASURE, "update-norm"),
    NewKind.ENGINE: (Kind.ENGINE, "torch-optimizers"),
}
"""Kind and name of the plugin in each template, which the new name replaces."""

RUNS = {
    Kind.RULE: ("quick", 'defenses=["fedavg", "{name}"]'),
    Kind.PREAGGREGATION: ("quick", 'defenses=["median", "{name} + median"]'),
    Kind.TRANSPORT: ("quick", 'defenses=["fedavg", "{name} + fedavg"]'),
    Kind.ATTACK: ("quick", 'attacks=["none", "{name}"]'),
    NewKind.RECONSTRUCTION_ATTACK: ("privacy-quick", 'attacks=["{name}"]'),
    NewKind.MEMBERSHIP_ATTACK: ("privacy-membership", 'attacks=["{name}"]'),
    Kind.OBSERVATION: ("privacy-quick", 'measure.observation="{name}"'),
    Kind.TASK: ("quick", 'tasks=["{name}"]'),
    Kind.MEASURE: ("quick", 'measure.use="{name}"'),
    Kind.ENGINE: ("quick", 'engine="{name}"'),
}
"""Suite in which to try a plugin, and the setting that brings it in."""

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 60


def read_template(name: str) -> str:
    """Return a template by its name, such as "rule" or "test-rule"."""
    return (resources.files("fflbench.templates") / f"{_identifier(name)}.py").read_text("utf-8")


def write_plugin(kind: NewKind, name: str, folder: Path) -> tuple[Path, Path]:
    """Write a plugin of this name and its test to a folder, and return both files."""
    _, example = EXAMPLES[kind]
    source, test = read_template(kind), read_template(f"test-{kind}")
    _check_name(kind, name, source)
    plugin_file = folder / f"{_identifier(name)}.py"
    test_file = folder / f"test_{plugin_file.name}"
    for file in (plugin_file, test_file):
        if file.exists():
            raise FflbenchError(f"{file} is there already: choose another name, or another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in ((plugin_file, source), (test_file, test)):
        with file.open("x", encoding="utf-8") as new:
            new.write(_with_name(text, example, name))
    return plugin_file, test_file


def next_steps(kind: NewKind, name: str, plugin_file: Path, test_file: Path) -> list[str]:
    """Return commands that check, test and run a new plugin."""
    registered = EXAMPLES[kind][0]
    suite, setting = RUNS.get(kind) or RUNS[registered]
    run = ["fflbench", "run", suite, "--plugin", str(plugin_file)]
    run += ["--set", setting.format(name=name), "--set", "also=[]"]
    commands = [["fflbench", "check", str(plugin_file)], ["pytest", str(test_file)], run]
    if registered is Kind.RULE:
        commands.append(["fflbench", "enter", str(plugin_file), "--board", "quick"])
    return [shlex.join(command) for command in commands]


def _check_name(kind: NewKind, name: str, source: str) -> None:
    """Raise an error for a name that cannot be used, with the reason."""
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise FflbenchError(
            f'"{name}" is no name for a plugin: up to {LONGEST} small letters and digits, a letter first, with single '
            f"hyphens between words, as in my-{kind}"
        )
    registry.load_installed()
    registered, example = EXAMPLES[kind]
    if there := registry.namesake(registered, name):
        raise FflbenchError(f"{there} is registered already: choose another name")
    identifier, class_name = _identifier(name), _class_name(name)
    own = {_identifier(example), _class_name(example)}
    taken = {*(set(_names(source)) - own), *keyword.kwlist, *dir(builtins)}
    for word in (identifier, class_name):
        if word in taken:
            raise FflbenchError(f'"{word}" has a meaning in such a file already: choose another name than {name}')
    if identifier.startswith("test_") or identifier in ("test", "conftest"):
        raise FflbenchError(f"pytest would take {identifier}.py for tests: choose another name")
    if importlib.util.find_spec(identifier):
        raise FflbenchError(f"{identifier}.py would hide the Python module {identifier}: choose another name")


def _names(source: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return (token.string for token in tokens if token.type == tokenize.NAME)


def _with_name(text: str, example: str, name: str) -> str:
    """Return the text of a template with another name, in all its spellings."""
    for spelled in (str, _identifier, _class_name, _title):
        text = text.replace(spelled(example), spelled(name))
    return text


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()
