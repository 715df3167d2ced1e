"""Registry of plugins: attacks, parts of defenses, tasks, measures, engines, executors and suites by name.

`fflbench.registration` has the decorators that register them. Plugins are modules, found through the entry-point group
`fflbench.plugins` (the built-ins too) or named with `--plugin`. Where an entry point names a package, every module in
it is loaded but those whose name starts with `_`.
"""

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from fflbench import plugin_parameters
from fflbench.errors import (
    DuplicateNameError,
    NotRegisteredError,
    ParameterError,
    did_you_mean_hint,
    error_in_one_line,
    name_plugin_in_errors,
)
from fflbench.plugin_parameters import Parameter

ENTRY_POINTS = "fflbench.plugins"

LETTERS = 100
"""Most characters of a name."""


class Kind(StrEnum):
    """Kinds of plugins."""

    ATTACK = "attack"
    PRIVACY_ATTACK = "privacy-attack"
    DEFENSE = "defense"
    RULE = "rule"
    PREAGGREGATION = "preaggregation"
    TRANSPORT = "transport"
    OBSERVATION = "observation"
    TASK = "task"
    MEASURE = "measure"
    ENGINE = "engine"
    EXECUTOR = "executor"
    SUITE = "suite"

    @property
    def plural(self) -> str:
        """Argument of `fflbench list` for this kind."""
        return f"{self}s"


CHAINED = (Kind.TRANSPORT, Kind.PREAGGREGATION, Kind.RULE, Kind.DEFENSE)
"""Kinds whose names a chain is made of: no two of them share a name."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """Registered plugin, with its description in tables."""

    kind: Kind
    name: str
    title: str
    summary: str
    file: Path
    target: Any = dataclasses.field(repr=False)
    module: str = ""
    citation: str = ""
    parameters: tuple[Parameter, ...] = ()
    version: int = 1
    """Results version, raised by every change that alters results."""
    source: str = ""
    """Digest of an outside plugin's source when it was imported; empty for built-ins."""
    knows: tuple[str, ...] = ()
    tolerates: str = ""
    """Condition on the number of attackers for which a rule's guarantee holds."""
    defined: str = ""
    """Condition on the number of attackers for which a rule is defined at all."""
    linear: bool = False
    """Whether a rule is a weighted mean of its rows, which a sum of updates is enough for."""
    coordinatewise: bool = False
    """Whether a rule treats every coordinate alone and, with equal weights, its values in any order alike."""
    sorts_columns: bool = False
    """Whether a rule hands all updates to `over_sorted_columns`, which refuses values that are not finite."""
    participants: bool = False
    """Whether a rule must know who sent each row."""
    root_update: bool = False
    """Whether a rule needs an update that the server trains on examples of its own."""
    regroups: bool = False
    """Whether a pre-aggregation may return more or fewer rows than it was given."""

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'

    @property
    def results_version(self) -> int | str:
        """Version by which an old record stays valid; an outside plugin's changes with its source."""
        return f"{self.version}+{self.source}" if self.source else self.version

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parameters, defaults filled in, or raise a `ParameterError`."""
        return plugin_parameters.check_parameters(str(self), self.parameters, given)

    def create(self, /, **given: Any) -> Any:
        """Return the plugin with its parameters set: an object of its class, or one that calls its function."""
        checked = self.check(given)
        if not inspect.isclass(self.target):
            return _wrappers[self.kind](self, checked)
        with name_plugin_in_errors(self):
            try:
                return self.target(**checked)
            except ValueError as error:
                raise ParameterError(f"{self}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Failure:
    """Plugin that could not be imported."""

    plugin: str
    error: str

    def __str__(self) -> str:
        return f"plugin {self.plugin} could not be loaded and is left out: {self.error}"


_entries: dict[tuple[Kind, str], Entry] = {}
_wrappers: dict[Kind, Callable[[Entry, Mapping[str, Any]], Any]] = {}


# Lookup


def set_function_wrapper(kind: Kind, wrapper: Callable[[Entry, Mapping[str, Any]], Any]) -> None:
    """Set the function that `Entry.create` calls for registered functions, with the entry and its parameters."""
    _wrappers[kind] = wrapper


def add(entry: Entry) -> None:
    """Add an entry, or raise an error for a name that is taken or badly formed."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name):
        raise ValueError(f'"{entry.name}" cannot be a name: use lower case letters, digits and single hyphens')
    if len(entry.name) > LETTERS:
        raise ValueError(
            f'"{entry.name[:20]}…" cannot be a name: it has {len(entry.name)} letters, and at most {LETTERS} fit'
        )
    key = entry.kind, entry.name
    present = namesake(entry.kind, entry.name)
    if present and (present.kind, present.file, _qualname(present)) != (entry.kind, entry.file, _qualname(entry)):
        raise DuplicateNameError(
            f"{entry} is registered twice, by {_qualname(present)} in {present.file} and by {_qualname(entry)} in "
            f"{entry.file}; rename one of them"
        )
    # One file under two module names (`attacks` imported from the checkout) is one plugin: the first import counts.
    if present and present.module != entry.module:
        return
    _entries[key] = entry


def namesake(kind: Kind, name: str) -> Entry | None:
    """Return the entry that a new one of this kind and name would collide with: parts of chains share their names."""
    shared = CHAINED if kind in CHAINED else (kind,)
    return next((_entries[each, name] for each in shared if (each, name) in _entries), None)


def _qualname(entry: Entry) -> str:
    return getattr(entry.target, "__qualname__", entry.name)


def entries(kind: Kind) -> list[Entry]:
    """Return all entries of one kind, sorted by name."""
    load_installed()
    return [entry for (of, _), entry in sorted(_entries.items()) if of is kind]


def entries_of_file(file: Path) -> list[Entry]:
    """Return all entries that a file registers."""
    return [entry for kind in Kind for entry in entries(kind) if entry.file.resolve() == file.resolve()]


@contextmanager
def without_plugins(plugins: Iterable[str]) -> Iterator[None]:
    """Remove the entries of plugins that the user named for a while, as if they were not loaded."""
    modules = [module_name_of_file(each) if each.endswith(".py") else each for each in plugins]
    removed = {key: entry for key, entry in _entries.items() if any(_is_in_module(entry, module) for module in modules)}
    for key in removed:
        del _entries[key]
    try:
        yield
    finally:
        _entries.update(removed)


def find(kind: Kind, name: str) -> Entry | None:
    """Return the entry of a name, or None if its plugin is not loaded."""
    load_installed()
    return _entries.get((kind, name))


def get(kind: Kind, name: str) -> Entry:
    """Return the entry of a name, or raise an error with the nearest one."""
    if entry := find(kind, name):
        return entry
    names = [entry.name for entry in entries(kind)]
    raise NotRegisteredError(
        f'{kind} "{name}" is not registered{did_you_mean_hint(name, names)} '
        f"(fflbench list {kind.plural}; a file of your own: --plugin, or import it in Python)"
    )


@functools.cache
def load_installed() -> tuple[Failure, ...]:
    """Import the plugins of all installed packages, once; a broken one does not stop the rest."""
    modules = sorted({point.module for point in importlib.metadata.entry_points(group=ENTRY_POINTS)})
    return tuple(failure for module in modules for failure in _import_plugin(module))


def load_named(plugins: Iterable[str]) -> tuple[Failure, ...]:
    """Import plugins named by the user: paths of Python files, or dotted modules."""
    load_installed()
    return tuple(failure for plugin in plugins for failure in _import_plugin(plugin))


def _is_in_module(entry: Entry, module: str) -> bool:
    return f"{entry.module}.".startswith(f"{module}.")


def _import_plugin(plugin: str) -> Iterator[Failure]:
    name = plugin
    try:
        name = module_name_of_file(plugin) if plugin.endswith(".py") else plugin
        module = _import_file(name, Path(plugin)) if name != plugin else importlib.import_module(name)
    except DuplicateNameError:
        raise
    except KeyboardInterrupt:
        raise
    # Foreign code may raise anything, sys.exit() included.
    except BaseException as error:
        for key in [key for key, entry in _entries.items() if _is_in_module(entry, name)]:
            del _entries[key]
        hint = ""
        if isinstance(error, ModuleNotFoundError) and name.startswith(error.name or "."):
            hint = f" (a file is named by its path: --plugin ./{plugin}.py)"
        yield Failure(plugin, f"{error_in_one_line(error)}{hint}")
        return
    try:
        inner = [each.name for each in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    except Exception as error:
        # A module may define __path__ as anything.
        yield Failure(plugin, error_in_one_line(error))
        return
    for each in inner:
        if not each.startswith("_"):
            yield from _import_plugin(f"{name}.{each}")


def module_name_of_file(file: str) -> str:
    """Return the name under which a plugin's file is imported."""
    return f"fflbench_plugin_{re.sub(r'[^0-9a-zA-Z]', '_', str(Path(file).resolve()))}"


def _import_file(name: str, file: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise FileNotFoundError(f"there is no such file (looked for {file.absolute()})")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
