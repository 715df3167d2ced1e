"""Registry of plugins: attacks, defenses, tasks, measures and suites by name.

One decorator registers an attack, a defense or a task; suites are files, so a folder of them is registered with one
call. Tables describe a plugin by its source: the citation is its module's docstring, the summary the first paragraph
of its own, the parameters its signature.

Plugins are modules, found through the entry-point group `fflbench.plugins` (the built-ins too) or named with
`--plugin`. Where an entry point names a package, every module in it is loaded but those whose name starts with `_`.
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
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform, get_type_hints

from annotated_types import Ge

from fflbench import parameters
from fflbench.errors import (
    DuplicateNameError,
    FflbenchError,
    NotRegisteredError,
    ParameterError,
    did_you_mean,
    in_a_line,
    plugin_code,
)
from fflbench.parameters import Parameter
from fflbench.source_digest import source_digest
from fflbench.tolerance import bears

ENTRY_POINTS = "fflbench.plugins"

FILLED_IN = ("weights", "participants", "columns", "model", "scale", "norms", "distances", "rng")
"""Arguments that the round fills in for a rule or pre-aggregation; every other one after `updates` is a parameter."""

F = Parameter(
    "f",
    Annotated[
        Annotated[int, Ge(0)] | Literal["20%", "bound"],
        "attackers assumed among the selected: a number, a fifth of them, or the most that are tolerated",
    ],
    default="20%",
)
"""Parameter of every rule that is a function of `f: int`."""

KNOWLEDGE = {
    "own data": "the attackers' own training data",
    "attackers' updates": "what the other attackers send",
    "honest updates": "what honest participants send",
    "defense": "which defense is used, with its parameters",
    "server view": "everything the server sees of a round",
    "a participant's view": "everything one participant sees of a round",
    "who exchanged with whom": "which participants exchanged parts of their updates with each other",
    "auxiliary data": "data like the victims'",
    "controlled participants": "participants who collude with the server, with their data",
}
"""Knowledge that an attack may need, which it declares and tables show."""


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
    participants: bool = False
    """Whether a rule must know who sent each row."""
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
        return parameters.check(str(self), self.parameters, given)

    def create(self, /, **given: Any) -> Any:
        """Return the plugin with its parameters set: an object of its class, or one that calls its function."""
        checked = self.check(given)
        if not inspect.isclass(self.target):
            return _wrappers[self.kind](self, checked)
        with plugin_code(self):
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

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


# Registration


def rule(
    name: str,
    *,
    title: str,
    tolerates: str = "",
    defined: str = "",
    linear: bool = False,
    participants: bool = False,
    citation: str = "",
    version: int = 1,
) -> Callable[[T], T]:
    """Register a rule: a function from updates to their aggregate, or a subclass of `Rule` with a memory.

    `tolerates` is the condition on f attackers among n for which its guarantee holds, as in "f < n/2"; `defined`, if it
    differs, the one for which it has an answer at all. A class that reads `view.participants` sets `participants`.
    """
    return lambda target: _register(
        Kind.RULE,
        target,
        name,
        title=title,
        citation=citation,
        version=version,
        tolerates=tolerates,
        defined=defined,
        linear=linear,
        participants=participants
        or (inspect.isfunction(target) and "participants" in inspect.signature(target).parameters),
    )


def preaggregation(
    name: str,
    *,
    title: str,
    tolerates: str = "",
    defined: str = "",
    regroups: bool = False,
    citation: str = "",
    version: int = 1,
) -> Callable[[T], T]:
    """Register a pre-aggregation: a function from updates to coefficients, one row of them per new row.

    `regroups` is set if it may return more or fewer rows than there are updates.
    """
    return lambda target: _register(
        Kind.PREAGGREGATION,
        target,
        name,
        title=title,
        citation=citation,
        version=version,
        tolerates=tolerates,
        defined=defined,
        regroups=regroups,
    )


@dataclass_transform(kw_only_default=True)
def transport(name: str, *, title: str, citation: str = "", version: int = 1) -> Callable[[C], C]:
    """Register a transport: a subclass of `Transport` whose fields are its parameters."""
    return lambda target: _register(Kind.TRANSPORT, target, name, title=title, citation=citation, version=version)


@dataclass_transform(kw_only_default=True)
def observation(
    name: str, *, title: str, knows: Sequence[str], citation: str = "", version: int = 1
) -> Callable[[C], C]:
    """Register an observation: a subclass of `Observation` that turns a coalition's view into updates to attack."""
    return lambda target: _register(
        Kind.OBSERVATION, target, name, title=title, citation=citation, version=version, knows=knows
    )


def chain(name: str, parts: str, *, title: str, summary: str = "", citation: str = "", version: int = 1) -> None:
    """Register a defense under a name of its own: `chain("ffl", "fragment-exchange + reputation", title="FFL")`."""
    _check_words(Kind.DEFENSE, name, version, parts=parts, title=title, summary=summary, citation=citation)
    module = sys.modules[sys._getframe(1).f_globals["__name__"]]
    _add(
        Entry(
            kind=Kind.DEFENSE,
            name=name,
            title=title,
            summary=summary or parts,
            file=_file_of(module),
            target=parts,
            module=module.__name__,
            citation=citation or _first_paragraph(module.__doc__),
            version=version,
            source=source_digest(module),
        )
    )


@dataclass_transform(kw_only_default=True)
def attack(name: str, *, title: str, knows: Sequence[str], citation: str = "", version: int = 1) -> Callable[[C], C]:
    """Register a poisoning attack: a class whose fields are its parameters."""
    return lambda target: _register(
        Kind.ATTACK, target, name, title=title, citation=citation, version=version, knows=knows
    )


@dataclass_transform(kw_only_default=True)
def privacy_attack(
    name: str, *, title: str, knows: Sequence[str], citation: str = "", version: int = 1
) -> Callable[[C], C]:
    """Register a privacy attack: a class whose fields are its parameters."""
    return lambda target: _register(
        Kind.PRIVACY_ATTACK, target, name, title=title, citation=citation, version=version, knows=knows
    )


@dataclass_transform(kw_only_default=True, frozen_default=True)
def task(name: str, *, title: str, citation: str = "", version: int = 1) -> Callable[[C], C]:
    """Register a task: a subclass of `fflbench.tasks.Task` whose fields suites may override."""
    return lambda target: _register(Kind.TASK, target, name, title=title, citation=citation, version=version)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def measure(name: str, *, title: str, citation: str = "", version: int = 1) -> Callable[[C], C]:
    """Register a measure: a subclass of `fflbench.measures.Measure` whose fields a suite's [measure] table sets."""
    return lambda target: _register(Kind.MEASURE, target, name, title=title, citation=citation, version=version)


def wrap_functions(kind: Kind, wrapper: Callable[[Entry, Mapping[str, Any]], Any]) -> None:
    """Set the function that `Entry.create` calls for registered functions, with the entry and its parameters."""
    _wrappers[kind] = wrapper


def suites_in(folder: Path) -> None:
    """Register every suite file of a folder under its file name; `title` and `description` are keys of the file."""
    for file in sorted(folder.glob("*.toml")):
        try:
            suite = tomllib.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise FflbenchError(f"{file} is not a suite file: {error}") from error
        _add(
            Entry(
                kind=Kind.SUITE,
                name=file.stem,
                title=str(suite.get("title", file.stem)),
                summary=str(suite.get("description", "")),
                file=file.resolve(),
                target=file.resolve(),
            )
        )


def _register(
    kind: Kind,
    target: Any,
    name: str,
    *,
    title: str,
    citation: str,
    version: int,
    knows: Sequence[str] = (),
    tolerates: str = "",
    defined: str = "",
    **declared: bool,
) -> Any:
    _check_words(kind, name, version, title=title, citation=citation, tolerates=tolerates, defined=defined)
    for piece in knows:
        if piece not in KNOWLEDGE:
            raise ValueError(f'{kind} "{name}" declares unknown knowledge "{piece}" (known: {", ".join(KNOWLEDGE)})')
    module = sys.modules[target.__module__]
    summary = _first_paragraph(target.__doc__) or title
    if inspect.isabstract(target):
        raise TypeError(f'{kind} "{name}" must define {", ".join(sorted(target.__abstractmethods__))}')
    if inspect.isclass(target):
        _check_base(kind, name, target)
        if "__dataclass_fields__" not in vars(target):
            _inherit_annotations(target)
            dataclasses.dataclass(kw_only=True, frozen=kind in (Kind.TASK, Kind.MEASURE))(target)
        if kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK, Kind.OBSERVATION):
            setattr(target, "knows", tuple(knows))  # noqa: B010
        if kind is Kind.RULE:
            setattr(target, "needs_participants", declared["participants"])  # noqa: B010
        known_parameters = parameters.of_dataclass(target)
    elif inspect.isfunction(target) and kind in FUNCTIONS:
        read = parameters.of_function(target, FILLED_IN)
        known_parameters = tuple(F if each.name == "f" and each.required else each for each in read)
        if any(each.name == "f" for each in known_parameters):
            bears(tolerates, 0, 1), bears(defined or tolerates, 0, 1)
    else:
        raise TypeError(f'{kind} "{name}" must be a class{" or a function" if kind in FUNCTIONS else ""}')
    _add(
        Entry(
            kind=kind,
            name=name,
            title=title,
            summary=summary,
            file=_file_of(module),
            target=target,
            module=module.__name__,
            citation=citation or _first_paragraph(module.__doc__),
            parameters=known_parameters,
            version=version,
            source=source_digest(module),
            knows=tuple(knows),
            tolerates=tolerates,
            defined=defined or tolerates,
            **declared,
        )
    )
    return target


def _file_of(module: ModuleType) -> Path:
    # The module of a notebook has no file; its name is used instead.
    return Path(getattr(module, "__file__", None) or f"<{module.__name__}>").resolve()


FUNCTIONS = (Kind.RULE, Kind.PREAGGREGATION)
"""Kinds that a function may implement."""


BASES = {
    Kind.ATTACK: ("fflbench.federation.attack", "Attack"),
    Kind.RULE: ("fflbench.federation.rule", "Rule"),
    Kind.TRANSPORT: ("fflbench.federation.transport", "Transport"),
    Kind.OBSERVATION: ("fflbench.privacy.observation", "Observation"),
    Kind.TASK: ("fflbench.tasks.task", "Task"),
    Kind.MEASURE: ("fflbench.measures", "Measure"),
}
"""Class that a registered class must inherit from; privacy attacks have one for each measure that runs them."""


def _check_base(kind: Kind, name: str, target: type[Any]) -> None:
    module, base = BASES.get(kind, ("builtins", "object"))
    # No class can inherit from one whose module is not imported.
    if not issubclass(target, getattr(sys.modules.get(module), base, ())):
        raise TypeError(f'{kind} "{name}" must be a subclass of {module}.{base}')


def _check_words(kind: Kind, name: object, version: object, **words: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a text, not {name!r}")
    for what, word in words.items():
        if not isinstance(word, str):
            raise TypeError(f'{kind} "{name}": its {what} must be a text, not {word!r}')
    if type(version) is not int or version < 1:
        raise TypeError(f'{kind} "{name}": its version must be a whole number from 1, not {version!r}')


def _inherit_annotations(cls: type[Any]) -> None:
    """Let `rounds = 100` give an inherited field a new default, without repeating its type and meaning."""
    inherited = get_type_hints(cls.__mro__[1], include_extras=True)
    for name in getattr(cls, "__dataclass_fields__", {}):
        if name in vars(cls) and name not in cls.__annotations__:
            cls.__annotations__[name] = inherited[name]


def _add(entry: Entry) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name):
        raise ValueError(f'"{entry.name}" cannot be a name: use lower case letters, digits and single hyphens')
    if len(entry.name) > LETTERS:
        raise ValueError(
            f'"{entry.name[:20]}…" cannot be a name: it has {len(entry.name)} letters, and at most {LETTERS} fit'
        )
    key = entry.kind, entry.name
    shared = CHAINED if entry.kind in CHAINED else (entry.kind,)
    present = next((_entries[kind, entry.name] for kind in shared if (kind, entry.name) in _entries), None)
    if present and (present.kind, present.file, _qualname(present)) != (entry.kind, entry.file, _qualname(entry)):
        raise DuplicateNameError(
            f"{entry} is registered twice, by {_qualname(present)} in {present.file} and by {_qualname(entry)} in "
            f"{entry.file}; rename one of them"
        )
    # One file under two module names (`attacks` imported from the checkout) is one plugin: the first import counts.
    if present and present.module != entry.module:
        return
    _entries[key] = entry


def _qualname(entry: Entry) -> str:
    return getattr(entry.target, "__qualname__", entry.name)


def _first_paragraph(docstring: str | None) -> str:
    paragraph = inspect.cleandoc(docstring or "").split("\n\n")[0]
    return " ".join(paragraph.split())


# Lookup


def entries(kind: Kind) -> list[Entry]:
    """Return all entries of one kind, sorted by name."""
    load_installed()
    return [entry for (of, _), entry in sorted(_entries.items()) if of is kind]


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
        f'{kind} "{name}" is not registered{did_you_mean(name, names)} '
        f"(fflbench list {kind.plural}; a file of your own: --plugin)"
    )


@functools.cache
def load_installed() -> tuple[Failure, ...]:
    """Import the plugins of all installed packages, once; a broken one does not stop the rest."""
    modules = sorted({point.module for point in importlib.metadata.entry_points(group=ENTRY_POINTS)})
    return tuple(failure for module in modules for failure in _load(module))


def load_named(plugins: Iterable[str]) -> tuple[Failure, ...]:
    """Import plugins named by the user: paths of Python files, or dotted modules."""
    load_installed()
    return tuple(failure for plugin in plugins for failure in _load(plugin))


def _load(plugin: str) -> Iterator[Failure]:
    name = plugin
    try:
        name = _name_of_file(plugin) if plugin.endswith(".py") else plugin
        module = _import_file(name, Path(plugin)) if name != plugin else importlib.import_module(name)
    except DuplicateNameError:
        raise
    except KeyboardInterrupt:
        raise
    # Foreign code may raise anything, sys.exit() included.
    except BaseException as error:
        for key in [key for key, entry in _entries.items() if f"{entry.module}.".startswith(f"{name}.")]:
            del _entries[key]
        hint = ""
        if isinstance(error, ModuleNotFoundError) and name.startswith(error.name or "."):
            hint = f" (a file is named by its path: --plugin ./{plugin}.py)"
        yield Failure(plugin, f"{in_a_line(error)}{hint}")
        return
    try:
        inner = [each.name for each in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    except Exception as error:
        # A module may define __path__ as anything.
        yield Failure(plugin, in_a_line(error))
        return
    for each in inner:
        if not each.startswith("_"):
            yield from _load(f"{name}.{each}")


def _name_of_file(file: str) -> str:
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
