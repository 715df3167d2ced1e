"""Commands that create and check a leaderboard, as its pages show them."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from fflbench import registry
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.safe_texts import slug


@dataclass(frozen=True)
class ReproductionCommands:
    """Commands that create a leaderboard, create it again, and check it."""

    run: str
    make: str
    make_again: str
    verify: str


def reproduction_commands(suite: str, records: Iterable[Record], reported: Mapping[str, str]) -> ReproductionCommands:
    """Return the commands for a suite, with the plugins that its records need."""
    name = slug(suite)
    shipped = any(entry.name == suite for entry in registry.entries(Kind.SUITE))
    own = [record for record in records if record.id not in reported]
    plugins = "".join(dict.fromkeys(option for record in own for option in plugin_options(record)))
    return ReproductionCommands(
        run=f"fflbench run {name if shipped else f'{name}.toml'}{plugins}",
        make=f"fflbench leaderboard results/{name}",
        make_again=f"fflbench leaderboard leaderboards/{name}",
        verify=f"fflbench verify leaderboards/{name} --sample 3{plugins}",
    )


def plugin_options(record: Record) -> list[str]:
    """Return the options that name a record's plugins: modules unchanged, files without their folders."""
    plugins = record.manifest.get("plugins") or []
    names = [re.sub(r"[^\w.-]", "-", PurePath(str(plugin).replace("\\", "/")).name) for plugin in plugins]
    return [f" --plugin {shlex.quote(name)}" for name in names if name]
