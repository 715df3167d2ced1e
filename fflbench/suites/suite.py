"""Suite file: tasks, attacks and defenses to combine, with their parameters and seeds.

The format is documented in docs/suites.md. Nothing in a suite file is ever executed.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Lt, MinLen

from fflbench import plugin_parameters, registry
from fflbench.errors import ParameterError, RecordError, SuiteError, did_you_mean_hint
from fflbench.plugin_parameters import format_value
from fflbench.registry import Kind
from fflbench.untrusted_files import read_bytes

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Content of a suite file."""

    name: str
    source: str
    tasks: Annotated[list[str], MinLen(1), "tasks, by name or by the label of a [task.LABEL] table"]
    defenses: Annotated[
        list[str], MinLen(1), 'defenses: chains such as "nnm + median", by name or label; "*" stands for all others'
    ]
    seeds: Annotated[list[Annotated[int, Ge(0), Lt(2**63)]], MinLen(1), "one cell each"]
    attacks: Annotated[list[str], "attacks, by name or label"] = field(default_factory=list)
    title: Annotated[str, "one line"] = ""
    description: Annotated[str, "what it shows"] = ""
    overrides: Annotated[dict[str, Any], "fields of all tasks"] = field(default_factory=dict)
    task: Annotated[Tables, "fields of one task"] = field(default_factory=dict)
    attack: Annotated[Tables, "parameters of one attack"] = field(default_factory=dict)
    defense: Annotated[
        Tables, "use = its chain, and parameters: of all parts that have them, or in a table of one part"
    ] = field(default_factory=dict)
    deviation: Annotated[Tables, "how participants depart from one transport's protocol"] = field(default_factory=dict)
    measure: Annotated[
        dict[str, Any], "what is measured: use = its name (robustness if not given), and its parameters"
    ] = field(default_factory=dict)
    also: Annotated[
        list[dict[str, Any]], "more cells: the same keys but title; tasks, defenses and seeds, if not given, as above"
    ] = field(default_factory=list)
    parts: tuple["Suite", ...] = ()
    """Suites of the `also` tables."""
    narrowed: bool = False
    """Whether its defenses were set by `--set`, so that a transport with a table may be unused."""


KEYS = tuple(
    parameter
    for parameter in plugin_parameters.parameters_of_dataclass(Suite)
    if parameter.name not in ("name", "source", "parts", "narrowed")
)
LARGEST = 10**7
"""Most bytes of a suite file."""

INHERITED = ("tasks", "defenses", "seeds", "overrides")


def read(name_or_path: str, settings: Iterable[str] = ()) -> Suite:
    """Return a shipped suite by its name, or a suite file by its path, with `--set` applied."""
    path = find(name_or_path)
    try:
        content = tomllib.loads(read_bytes(path, LARGEST).decode("utf-8"))
    except RecordError as error:
        raise SuiteError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{path} is not a TOML file: {error}") from error
    return parse(content, path.stem, str(path), settings)


def find(name_or_path: str) -> Path:
    """Return the file of a suite."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or os.path.isfile(path):  # noqa: PTH113 (a name too long for a file is none)
        if not re.fullmatch(r"\w[\w. -]*", path.stem):
            raise SuiteError(f"{path}: the name of a suite file must be letters, digits, dots, spaces and hyphens")
        return path
    names = [entry.name for entry in registry.entries(Kind.SUITE)]
    if name_or_path in names:
        file: Path = registry.get(Kind.SUITE, name_or_path).target
        return file
    raise SuiteError(
        f'there is no suite or file "{name_or_path}"{did_you_mean_hint(name_or_path, names)} (fflbench list suites)'
    )


def parse(
    content: Mapping[str, Any], name: str, source: str, settings: Iterable[str] = (), *, narrowed: bool = False
) -> Suite:
    """Return a suite from the content of its file, or raise an error that names the file and the key."""
    merged, applied = dict(content), list(settings)
    for setting in applied:
        merged = _apply_setting(merged, setting)
    narrowed = narrowed or "defenses" in _drop_unused_tables(merged, applied)
    try:
        checked = plugin_parameters.check_parameters(source, KEYS, merged, noun="key")
    except ParameterError as error:
        raise SuiteError(str(error)) from error
    parts = tuple(
        parse(_also_content(merged, part, source), name, f"{source}: [[also]] {place}", narrowed=narrowed)
        for place, part in enumerate(checked["also"], start=1)
    )
    suite = Suite(name=name, source=source, parts=parts, narrowed=narrowed, **checked)
    for key in ("tasks", "attacks", "defenses", "seeds"):
        listed = getattr(suite, key)
        twice = [item for place, item in enumerate(listed) if item in listed[:place]]
        if twice:
            raise SuiteError(f"{source}: {key} has {twice[0]!r} twice")
        for label in getattr(suite, key[:-1], ()):
            if label not in listed and not (key == "defenses" and "*" in listed):
                raise SuiteError(f"{source}: [{key[:-1]}.{label}] is not among {key}{did_you_mean_hint(label, listed)}")
    return suite


def _also_content(content: Mapping[str, Any], part: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the content of an `also` table, with the keys inherited from its suite."""
    if whole_suites := {"title", "description", "also"} & set(part):
        raise SuiteError(f"{source}: [[also]] has no {min(whole_suites)} of its own")
    whole = {key: content[key] for key in INHERITED if key in content} | dict(part)
    for key in ("task", "attack", "defense"):
        listed, own = whole.get(f"{key}s"), part.get(key, {})
        # A wrong type is reported later, with the part's name.
        if isinstance(listed, list) and isinstance(own, dict):
            whole[key] = {label: table for label, table in content.get(key, {}).items() if label in listed} | own
    return whole


def _drop_unused_tables(content: dict[str, Any], settings: list[str]) -> set[str]:
    """Return the lists of names that were set by `--set`, and remove tables of names no longer in them."""
    narrowed = {setting.partition("=")[0].strip() for setting in settings} & {"tasks", "attacks", "defenses"}
    for key in narrowed:
        table, listed = content.get(key[:-1]), content.get(key)
        # A wrong type is reported later, with its key.
        if isinstance(table, dict) and isinstance(listed, list):
            content[key[:-1]] = {name: value for name, value in table.items() if name in listed}
    return narrowed


def _apply_setting(content: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """Return `content` with one `--set key=value` applied; a key that no suite has is a field of all tasks."""
    key, equals, text = setting.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise SuiteError(
            f"--set takes key=value, as in --set rounds=10 or --set defense.multi-krum.f=3, not {format_value(setting)}"
        )
    if path[0] not in {parameter.name for parameter in KEYS}:
        path = ["overrides", *path]
    return _with_value_at(content, path, plugin_parameters.parse_toml_value(text.strip()), setting)


def _with_value_at(content: Mapping[str, Any], path: list[str], value: Any, setting: str) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise SuiteError(f"--set {format_value(setting)}: {format_value(path[0])} has no place there")
    rest = path[1:]
    return {**content, path[0]: _with_value_at(content.get(path[0], {}), rest, value, setting) if rest else value}
