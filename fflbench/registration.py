"""Decorators that register plugins.

One decorator registers an attack, a part of a defense, a task or a measure; suites are files, so a folder of them is
registered with one call. Tables describe a plugin by its source: the citation is its module's docstring, the summary
the first paragraph of its own, the parameters its signature.
"""

import dataclasses
import inspect
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

from annotated_types import Ge

from fflbench import plugin_parameters, registry
from fflbench.attacker_tolerance import is_tolerated
from fflbench.errors import FflbenchError
from fflbench.plugin_parameters import Parameter
from fflbench.registry import Entry, Kind
from fflbench.source_digest import source_digest

FILLED_IN = {
    "weights": "weight of each row in a mean, not normalised: its sender's number of examples, unless the transport "
    "sets another (a vector)",
    "participants": "number of each row's sender (a vector of int64)",
    "columns": "which columns are parameters, which are the last layer's (`Columns`, with slices `parameters` and "
    "`last_layer`)",
    "model": "the global model that participants started from (a vector of float32)",
    "scale": "factor by which the round multiplies the aggregate (a number)",
    "root_update": "update that the server trained on its own examples (a vector of float32)",
    "norms": "Euclidean norm of every row (a vector of float64)",
    "distances": "squared Euclidean distances between all rows (an n x n matrix of float64)",
    "products": "inner products of all rows (an n x n matrix of float64)",
    "rng": "the only source of random numbers (`numpy.random.Generator`)",
}
"""Arguments that the round fills in for a rule or pre-aggregation; every other one after `updates` is a parameter."""

F = Parameter(
    "f",
    Annotated[
        Annotated[int, Ge(0)] | str,
        'attackers assumed among the selected: a number, a percentage of them ("20%"), "bound" (the most that are '
        'tolerated) or "attackers" (their true number in the round, an oracle)',
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
    "victims' labels": "the labels of the examples that are to be reconstructed",
    "controlled participants": "participants who collude with the server, with their data",
}
"""Knowledge that an attack may need, which it declares and tables show."""

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


def rule(
    name: str,
    *,
    title: str,
    tolerates: str = "",
    defined: str = "",
    linear: bool = False,
    coordinatewise: bool = False,
    sorts_columns: bool = False,
    participants: bool = False,
    root_update: bool = False,
    citation: str = "",
    version: int = 1,
) -> Callable[[T], T]:
    """Register a rule: a function from updates to their aggregate, or a subclass of `Rule` with a memory.

    `tolerates` is the condition on f attackers among n for which its guarantee holds, as in "f < n/2"; `defined`, if it
    differs, the one for which it has an answer at all. A rule is `coordinatewise` if each coordinate of its aggregate
    depends on the values of that coordinate alone and, where all weights are equal, not on their order: it then works
    on rows that mix coordinates of several participants. A class that reads `view.participants` or
    `view.root_update` sets `participants` or `root_update`; of a function, its arguments say so. A function that hands
    all updates to `over_sorted_columns` may set `sorts_columns`: `aggregate` then leaves the search for values that are
    not finite to it, which saves a pass over the updates.
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
        coordinatewise=coordinatewise,
        sorts_columns=sorts_columns,
        participants=participants or _has_argument("participants", target),
        root_update=root_update or _has_argument("root_update", target),
    )


def _has_argument(argument: str, target: Any) -> bool:
    return inspect.isfunction(target) and argument in inspect.signature(target).parameters


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
        _without_root_update(name, target),
        name,
        title=title,
        citation=citation,
        version=version,
        tolerates=tolerates,
        defined=defined,
        regroups=regroups,
    )


def _without_root_update(name: str, target: T) -> T:
    """Return a pre-aggregation, or raise an error if it asks for what only rules receive."""
    if _has_argument("root_update", target):
        raise TypeError(f'preaggregation "{name}" cannot ask for root_update, which only rules receive')
    return target


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
    _check_texts(Kind.DEFENSE, name, version, parts=parts, title=title, summary=summary, citation=citation)
    module = sys.modules[sys._getframe(1).f_globals["__name__"]]
    registry.add(
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
    """Register a task: a subclass of `Task` whose fields suites may override."""
    return lambda target: _register(Kind.TASK, target, name, title=title, citation=citation, version=version)


def engine(name: str, *, title: str, citation: str = "", version: int = 1) -> Callable[[T], T]:
    """Register an engine: a function of a model and local data that returns an `Engine`."""
    return lambda target: _register(Kind.ENGINE, target, name, title=title, citation=citation, version=version)


def executor(name: str, *, title: str, citation: str = "", version: int = 1) -> Callable[[T], T]:
    """Register an executor: a function of jobs and settings that yields events (see `execution.jobs_and_events`)."""
    return lambda target: _register(Kind.EXECUTOR, target, name, title=title, citation=citation, version=version)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def measure(name: str, *, title: str, citation: str = "", version: int = 1) -> Callable[[C], C]:
    """Register a measure: a subclass of `Measure` whose fields a suite's [measure] table sets."""
    return lambda target: _register(Kind.MEASURE, target, name, title=title, citation=citation, version=version)


def suites_in(folder: Path) -> None:
    """Register every suite file of a folder under its file name; `title` and `description` are keys of the file."""
    for file in sorted(folder.glob("*.toml")):
        try:
            suite = tomllib.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise FflbenchError(f"{file} is not a suite file: {error}") from error
        registry.add(
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
    _check_texts(kind, name, version, title=title, citation=citation, tolerates=tolerates, defined=defined)
    for piece in knows:
        if piece not in KNOWLEDGE:
            raise ValueError(f'{kind} "{name}" declares unknown knowledge "{piece}" (known: {", ".join(KNOWLEDGE)})')
    module = sys.modules[target.__module__]
    summary = _first_paragraph(target.__doc__) or title
    if inspect.isabstract(target):
        raise TypeError(f'{kind} "{name}" must define {", ".join(sorted(target.__abstractmethods__))}')
    if inspect.isclass(target) and kind not in FACTORIES:
        guarantee = {"label": f'{kind} "{name}"', "tolerates": tolerates, "defined": defined or tolerates}
        known_parameters = _class_parameters(kind, name, target, guarantee, knows=tuple(knows), **declared)
    elif inspect.isfunction(target) and kind in FACTORIES:
        known_parameters = ()
    elif inspect.isfunction(target) and kind in FUNCTIONS:
        read = plugin_parameters.parameters_of_function(target, tuple(FILLED_IN))
        known_parameters = tuple(F if each.name == "f" and each.required else each for each in read)
        if any(each.name == "f" for each in known_parameters):
            _check_conditions(f'{kind} "{name}"', tolerates, defined or tolerates)
    else:
        raise TypeError(f'{kind} "{name}" must be {_required_form(kind)}')
    registry.add(
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


def _check_conditions(label: str, *conditions: str) -> None:
    """Raise an error for conditions on f and n that are missing or cannot be read."""
    for condition in conditions:
        if not condition:
            raise ValueError(f'{label} has a parameter f: say how many it tolerates, as in tolerates="f < n/2"')
        is_tolerated(condition, 0, 1)


def _class_parameters(
    kind: Kind,
    name: str,
    target: type[Any],
    guarantee: dict[str, str],
    *,
    knows: tuple[str, ...],
    participants: bool = False,
    **declared: bool,
) -> tuple[Parameter, ...]:
    """Make a class a dataclass with the attributes that its decorator declares, and return its parameters."""
    _check_base(kind, name, target)
    if "__dataclass_fields__" not in vars(target):
        _inherit_annotations(target)
        if kind is Kind.RULE and "f" in target.__annotations__:
            _check_conditions(*guarantee.values())
            target.__annotations__["f"] = F.annotation
            target.f = vars(target).get("f", F.default)
        dataclasses.dataclass(kw_only=True, frozen=kind in (Kind.TASK, Kind.MEASURE))(target)
    attributes: dict[str, Any] = {}
    if kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK, Kind.OBSERVATION):
        attributes = {"knows": knows}
    if kind is Kind.RULE:
        attributes = {
            "needs_participants": participants,
            "needs_root_update": declared["root_update"],
            "coordinatewise": declared["coordinatewise"],
            **guarantee,
        }
    for attribute, value in attributes.items():
        setattr(target, attribute, value)
    return plugin_parameters.parameters_of_dataclass(target)


def _required_form(kind: Kind) -> str:
    return "a function" if kind in FACTORIES else "a class or a function" if kind in FUNCTIONS else "a class"


def _file_of(module: ModuleType) -> Path:
    # The module of a notebook has no file; its name is used instead.
    return Path(getattr(module, "__file__", None) or f"<{module.__name__}>").resolve()


FUNCTIONS = (Kind.RULE, Kind.PREAGGREGATION)
"""Kinds that a function may implement."""

FACTORIES = (Kind.ENGINE, Kind.EXECUTOR)
"""Kinds that are functions whose arguments no suite sets."""


BASES = {
    Kind.ATTACK: ("fflbench.federation.attack", "Attack"),
    Kind.RULE: ("fflbench.federation.rule", "Rule"),
    Kind.TRANSPORT: ("fflbench.federation.transport", "Transport"),
    Kind.OBSERVATION: ("fflbench.privacy.observation", "Observation"),
    Kind.TASK: ("fflbench.tasks.task", "Task"),
    Kind.MEASURE: ("fflbench.measures.measure", "Measure"),
}
"""Class that a registered class must inherit from; privacy attacks have one for each measure that runs them."""


def _check_base(kind: Kind, name: str, target: type[Any]) -> None:
    module, base = BASES.get(kind, ("builtins", "object"))
    # No class can inherit from one whose module is not imported.
    if not issubclass(target, getattr(sys.modules.get(module), base, ())):
        raise TypeError(f'{kind} "{name}" must be a subclass of fflbench.plugin.{base}')


def _check_texts(kind: Kind, name: object, version: object, **words: object) -> None:
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


def _first_paragraph(docstring: str | None) -> str:
    paragraph = inspect.cleandoc(docstring or "").split("\n\n")[0]
    return " ".join(paragraph.split())
