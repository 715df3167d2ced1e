"""Real inputs that cases start from: shipped suites, and records of a small suite made here."""

import functools
import hashlib
import json
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.fuzz.failure import ROOT
from tests.fuzz.mutation import toml_text

SMALL = """
title = "Small"
tasks = ["digits-mlp"]
attacks = ["none", "label-flipping"]
defenses = ["fedavg", "ffl"]
seeds = [0, 1]
overrides = {rounds = 2, participants = 10, per_round = 5}
deviation = {fragment-exchange = {strategy = 2}}

[[also]]
attacks = ["analytic"]
[also.measure]
use = "reconstruction"
observation = ["submission"]
groups = 1
people = 10

[[also]]
attacks = ["partner-view"]
defenses = ["ffl"]
seeds = [0]
[also.measure]
use = "partner"
pads = "aes-ctr"
pairs = 1

[[also]]
attacks = ["loss-threshold"]
[also.measure]
use = "membership"

[[also]]
attacks = ["property-inference"]
seeds = [0]
[also.measure]
use = "property"
groups = 2
people = 4
examples = 10
model_epochs = 0

[[also]]
seeds = [0]
[also.measure]
use = "runtime"
updates = 2
repeats = 1

[[also]]
seeds = [0]
[also.measure]
use = "communication"
updates = 2
"""
"""A suite with every measure, as small as can be."""


BOARD = ("robustness", "communication", "reconstruction")
"""Measures of the leaderboard that cases start from."""


@dataclass(frozen=True)
class RecordFiles:
    """A record's file and that of its arrays."""

    id: str
    measure: str
    text: bytes
    packed: bytes = b""

    @property
    def tree(self) -> Any:
        """Its content."""
        return json.loads(self.text)

    @property
    def with_valid_digest(self) -> "RecordFiles":
        """The same with the digest that its content has now, in one line; whoever alters a record can do that."""
        try:
            tree = json.loads(self.text)
            tree.pop("digest", None)
            canonical = json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
            text = json.dumps({**tree, "digest": hashlib.sha256(canonical).hexdigest()}).encode()
        except (AttributeError, TypeError, ValueError, RecursionError):
            text = self.text
        return replace(self, text=text)

    def write(self, folder: Path) -> None:
        """Put both files into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.id}.json").write_bytes(self.text)
        if self.packed:
            (folder / f"{self.id}.npz").write_bytes(self.packed)


@functools.cache
def shipped_suites() -> dict[str, str]:
    """The shipped suites, by name."""
    return {file.stem: file.read_text("utf-8") for file in sorted((ROOT / "fflbench" / "suites").glob("*.toml"))}


@functools.cache
def make_records() -> tuple[RecordFiles, ...]:
    """Records of the small suite, made by this version of fflbench."""
    from fflbench.execution.run_cell import run_cell
    from fflbench.suites.plan import plan
    from fflbench.suites.suite import parse

    cells = plan(parse(tomllib.loads(SMALL), "small", "small.toml"))
    found = []
    for record in (run_cell(cell, "small") for cell in cells):
        assert record.status == "done", record.error
        measure = record.configuration["measure"]["name"]
        timed = TIMED if measure == "runtime" else TIMED[:1]
        # Cases are to be the same whenever they are made.
        steady = record.model_copy(update={part: _replace_measured_times(getattr(record, part)) for part in timed})
        found.append(RecordFiles(record.id, measure, steady.json_text().encode(), record.packed))
    return tuple(found)


TIMED = ("seconds", "metrics", "facts", "history")
"""Parts of a record that tell of time: the first of all of them, the others of a measure of time."""


def _replace_measured_times(value: Any) -> Any:
    """A value with the same number in the place of all that were measured."""
    if isinstance(value, dict):
        return {key: _replace_measured_times(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_measured_times(inner) for inner in value]
    return 0.25 if isinstance(value, float) else value


@functools.cache
def suite_with_measures(measures: tuple[str, ...]) -> str:
    """The part of the small suite that has these measures."""
    tree = tomllib.loads(SMALL)
    parts = [part for part in tree.pop("also") if part["measure"]["use"] in measures]
    if "robustness" in measures:
        return toml_text(tree)
    whole = {key: tree[key] for key in ("tasks", "defenses", "seeds", "overrides")} | parts[0]
    return toml_text(whole | {"also": parts[1:]} if parts[1:] else whole)


@functools.cache
def make_leaderboard_files() -> dict[str, bytes]:
    """A leaderboard of a few of those records, by file."""
    from fflbench.report import leaderboard

    few = [record for record in make_records() if record.measure in BOARD and record.tree["configuration"]["seed"] == 0]
    with tempfile.TemporaryDirectory() as folder:
        results, target = Path(folder, "results", "small"), Path(folder, "boards", "small")
        for record in few:
            record.write(results)
        leaderboard.generate(results, target)
        root = Path(folder, "boards")
        return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """Names of everything registered and of its parameters, and the keys of suites."""
    from fflbench import registry
    from fflbench.registry import Kind
    from fflbench.suites.suite import KEYS

    words = {parameter.name for parameter in KEYS} | {"use", "*"}
    for kind in Kind:
        for entry in registry.entries(kind):
            words |= {entry.name, *(parameter.name for parameter in entry.parameters)}
    return tuple(sorted(words))


@functools.cache
def small_suite_parameters() -> tuple[tuple[str, str, Any], ...]:
    """Parameters of what is in the small suite: the table they stand in, their name and their default."""
    from fflbench import registry
    from fflbench.federation.chain import parse
    from fflbench.plugin_parameters import parameters_of_dataclass
    from fflbench.registry import Kind
    from fflbench.suites.cell import deviation_class

    task, ffl = registry.get(Kind.TASK, "digits-mlp").parameters, parse("ffl")
    tables = {
        "task.digits-mlp": task,
        "attack.label-flipping": registry.get(Kind.ATTACK, "label-flipping").parameters,
        "defense.ffl": ffl.parameters,
        "defense.ffl.reputation": ffl.rule.parameters,
        "deviation.fragment-exchange": parameters_of_dataclass(deviation_class("fragment-exchange")),
        "overrides": task,
    }
    return tuple(
        (table, parameter.name, 1 if parameter.required else parameter.default)
        for table, known in tables.items()
        for parameter in known
    )
