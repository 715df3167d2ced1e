"""From a suite to its cells: every task with every attack, defense and seed, each checked before anything runs."""

import functools
import itertools
import json
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_origin

from fflbench import registry
from fflbench.data.sources import DataSet
from fflbench.errors import FflbenchError, ParameterError, SuiteError, plugin_code
from fflbench.federation.attack import Attack
from fflbench.federation.defense import Defense
from fflbench.measures import Measure
from fflbench.parameters import Parameter, plain_type
from fflbench.records.record import identify
from fflbench.records.shapes import check_label
from fflbench.registry import Entry, Kind
from fflbench.suites.suite import Suite
from fflbench.tasks import Task


@dataclass(frozen=True)
class Cell:
    """One task, one attack or measure, one defense, one seed."""

    configuration: Mapping[str, Any]
    """Everything that decides its result."""
    labels: Mapping[str, str]
    """What the suite calls its task, attack or measure, and defense."""

    @functools.cached_property
    def id(self) -> str:
        """A hash of the whole configuration, parameters included."""
        return identify(self.configuration)

    @property
    def seed(self) -> int:
        """The cell's seed."""
        seed: int = self.configuration["seed"]
        return seed

    def __str__(self) -> str:
        return f"{' · '.join(self.labels.values())} · seed {self.seed}"

    @property
    def kinds(self) -> list[Kind]:
        """What it is made of."""
        return [kind for kind in Kind if kind in self.configuration]

    @property
    def measure(self) -> Measure | None:
        """What it finds out, if not robustness."""
        return self.create(Kind.MEASURE) if Kind.MEASURE in self.configuration else None

    @property
    def data_set(self) -> DataSet | None:
        """What must be at hand to play it, if anything."""
        task: Task = self.create(Kind.TASK)
        looks = not self.measure or self.measure.needs_data or task.model_from_data
        return task.data_set if looks else None

    def entry(self, kind: Kind) -> Entry:
        """Its task, attack or defense in the registry."""
        return registry.get(kind, self.configuration[kind]["name"])

    def create(self, kind: Kind) -> Any:
        """Its task, attack or defense with all parameters set."""
        return self.entry(kind).create(**self.configuration[kind]["parameters"])


STRATEGY = "strategy"


@dataclass(frozen=True)
class Choice:
    """A task, attack or defense with its parameters, under the name that the tables show."""

    label: str
    name: str
    parameters: Mapping[str, Any]

    def create(self, kind: Kind) -> Any:
        """The thing itself."""
        return registry.get(kind, self.name).create(**self.parameters)


def plan(suite: Suite) -> list[Cell]:
    """All cells, in the order of the file; two that are the same in everything are refused."""
    cells: dict[str, Cell] = {}
    for part in (suite, *suite.parts):
        for cell in _measured(part) if part.measure else _attacked(part):
            try:
                for label in cell.labels.values():
                    check_label(label)
                taken = cell.id in cells
            except ValueError as error:
                raise SuiteError(f"{part.source}: {error}") from error
            if taken:
                raise SuiteError(f"{part.source}: {cell} and {cells[cell.id]} are the same cell under two labels")
            cells[cell.id] = cell
    return list(cells.values())


def _attacked(suite: Suite) -> Iterator[Cell]:
    tasks = _choices(suite, Kind.TASK, suite.tasks, suite.task, suite.overrides)
    attacks = _choices(suite, Kind.ATTACK, suite.attacks, suite.attack, {})
    defenses = _choices(suite, Kind.DEFENSE, suite.defenses, suite.defense, {})
    for task, attack, defense in itertools.product(tasks, attacks, defenses):
        _check(suite, task, attack, defense)
        with plugin_code(f'defense "{defense.name}"'):
            exchanges = defense.create(Kind.DEFENSE).exchanges
        strategies = [other.parameters[STRATEGY] for other in attacks if other.label == attack.label]
        strategy = attack.parameters[STRATEGY]
        if not exchanges and strategy != min(strategies):
            # Strategies differ only where fragments are exchanged: elsewhere one stands for all.
            continue
        row = f"{defense.label}, strategy {strategy}" if exchanges and len(strategies) > 1 else defense.label
        for seed in suite.seeds:
            yield _cell(seed, {Kind.TASK: task, Kind.ATTACK: attack, Kind.DEFENSE: defense}, row)


def _measured(suite: Suite) -> Iterator[Cell]:
    tasks = _choices(suite, Kind.TASK, suite.tasks, suite.task, suite.overrides)
    if not isinstance(name := suite.measure.get("use"), str):
        raise SuiteError(f"{suite.source}: [measure]: needs use = the name of a measure (fflbench list measures)")
    measures = _choices(suite, Kind.MEASURE, [name], {name: suite.measure}, {})
    attacks = _hostile(suite, measures[0].create(Kind.MEASURE))
    defenses = _choices(suite, Kind.DEFENSE, suite.defenses, suite.defense, {})
    for task, attack, measure, defense in itertools.product(tasks, attacks, measures, defenses):
        chosen = {Kind.TASK: task, **attack, Kind.MEASURE: measure, Kind.DEFENSE: defense}
        playing, finding, guarding = task.create(Kind.TASK), measure.create(Kind.MEASURE), defense.create(Kind.DEFENSE)
        try:
            with plugin_code(f'measure "{measure.name}"'):
                if not finding.applies(guarding):
                    continue
                finding.check(playing, guarding)
                finding.steps()
        except FflbenchError as error:
            raise SuiteError(f"{suite.source}: [defense.{defense.label}]: {error}") from error
        for seed in suite.seeds:
            yield _cell(seed, chosen, defense.label)


def _hostile(suite: Suite, finding: Measure) -> list[dict[Kind, Choice]]:
    """The attacks that a measure lets loose; one without any has an empty one."""
    kind = finding.attacked
    if kind is None:
        if suite.attacks:
            raise SuiteError(f'{suite.source}: measure "{suite.measure["use"]}" has no attacks')
        return [{}]
    if not suite.attacks:
        raise SuiteError(
            f'{suite.source}: measure "{suite.measure["use"]}" needs attacks (fflbench list {kind.plural})'
        )
    choices = _choices(suite, kind, suite.attacks, suite.attack, {})
    for choice in choices:
        with plugin_code(f'measure "{suite.measure["use"]}"'):
            takes = finding.takes(choice.create(kind))
        if not takes:
            raise SuiteError(f'{suite.source}: measure "{suite.measure["use"]}" cannot let "{choice.label}" loose')
    return [{kind: choice} for choice in choices]


def _cell(seed: int, chosen: Mapping[Kind, Choice], row: str) -> Cell:
    """A cell of these choices, whose defense stands in that row of its table."""
    configuration = {
        kind.value: {"name": choice.name, "parameters": choice.parameters} for kind, choice in chosen.items()
    }
    labels = {kind.value: choice.label for kind, choice in chosen.items()}
    return Cell({**configuration, "seed": seed}, {**labels, Kind.DEFENSE.value: row})


def _choices(
    suite: Suite, kind: Kind, labels: list[str], tables: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> list[Choice]:
    found = []
    for label in _spelled_out(labels, tables) if kind is Kind.DEFENSE else labels:
        where = f"{suite.source}: [{kind}.{label}]" if label in tables else f"{suite.source}: {kind.plural}"
        where = f"{suite.source}: [{kind}]" if kind is Kind.MEASURE else where
        table = dict(tables.get(label, {}))
        name = table.pop("use", label)
        if not isinstance(name, str):
            raise SuiteError(f"{where}: use = {name!r} must be the name of a registered {kind}")
        try:
            entry = registry.get(kind, name)
            for suffix, given in _grid({**common, **table}, entry.parameters):
                found.append(Choice(label + suffix, name, _kept(entry, given)))
                entry.create(**given)
        except FflbenchError as error:
            raise SuiteError(f"{where}: {error}") from error
    return found


def _kept(entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters, as a record will hold them."""
    checked = entry.check(given)
    try:
        json.dumps(checked, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{entry}: no record can hold its parameters ({error})") from error
    return checked


def _spelled_out(labels: list[str], tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """With every other registered defense in the place of a star."""
    # What is no name cannot be that of another defense; it is refused where its table is read.
    used = [tables.get(label, {}).get("use", label) for label in labels]
    taken = {name for name in used if isinstance(name, str)}
    # What hides everybody is an ideal, with no protocol whose cost could be measured.
    others = [
        entry.name
        for entry in registry.entries(Kind.DEFENSE)
        if entry.name not in taken and not getattr(entry.target, "hides_senders", False) and not _missing(entry)
    ]
    return [name for label in labels for name in (others if label == "*" else [label])]


def _missing(entry: Entry) -> str:
    """Return the name of a package that a defense needs and that is not installed."""
    with plugin_code(entry):
        is_class = isinstance(entry.target, type) and issubclass(entry.target, Defense)
        return entry.target.missing() if is_class else ""


def _grid(given: Mapping[str, Any], known: tuple[Parameter, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every combination of values where a parameter that is no list was given one, each with a suffix to its label."""
    lists = {parameter.name for parameter in known if get_origin(plain_type(parameter.annotation)) in (list, tuple)}
    varied = [name for name, value in given.items() if isinstance(value, list) and name not in lists]
    for name in varied:
        if not given[name]:
            raise ParameterError(f"{name} is an empty list of values")
    for values in itertools.product(*(given[name] for name in varied)):
        chosen = dict(zip(varied, values, strict=True))
        # How attackers behave in an exchange is told with the defense that has one.
        suffix = ", ".join(f"{name} = {value}" for name, value in chosen.items() if name != STRATEGY)
        yield f" ({suffix})" if suffix else "", {**given, **chosen}


def _check(suite: Suite, task: Choice, attack: Choice, defense: Choice) -> None:
    """Refuse what could only fail later: an impossible f, or an attack that leaves nobody honest."""
    playing: Task = task.create(Kind.TASK)
    hostile: Attack = attack.create(Kind.ATTACK)
    guarding: Defense = defense.create(Kind.DEFENSE)
    try:
        with plugin_code(f'defense "{defense.name}"'):
            guarding.validate(playing.per_round)
    except FflbenchError as error:
        raise SuiteError(f"{suite.source}: [defense.{defense.label}]: {error}") from error
    with plugin_code(f'attack "{attack.name}"'):
        attackers = operator.index(hostile.count(playing.participants))
    if attackers >= playing.participants or (hostile.share > 0 and attackers == 0):
        who = "none" if attackers else "all"
        raise SuiteError(
            f"{suite.source}: [attack.{attack.label}]: share = {hostile.share} leaves {who} of "
            f"{playing.participants} participants honest"
        )
