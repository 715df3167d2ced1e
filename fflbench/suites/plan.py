"""From a suite to its cells: every task with every attack, defense and seed, each checked before anything runs."""

import functools
import itertools
import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_origin

from fflbench import registry
from fflbench.data.sources import DataSet
from fflbench.errors import FflbenchError, ParameterError, SuiteError, plugin_code
from fflbench.federation.defense import Defense
from fflbench.measures import Measure
from fflbench.parameters import Parameter, plain_type
from fflbench.records.record import identify
from fflbench.records.validation import check_label
from fflbench.registry import Entry, Kind
from fflbench.suites.suite import Suite
from fflbench.tasks import Task

STRATEGY = "strategy"
ROBUSTNESS = "robustness"
"""The measure of a suite that names none."""


@dataclass(frozen=True)
class Cell:
    """A task, a defense, a measure, a seed and, where the measure runs one, an attack."""

    configuration: Mapping[str, Any]
    """Everything that decides its result."""
    labels: Mapping[str, str]
    """Labels of its parts in the suite."""
    sweep: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By kind, the parameter that the suite sweeps over, its value here, and the label that all values share."""

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
    def measure(self) -> Measure:
        """Its measure, with all parameters set."""
        measure: Measure = self.create(Kind.MEASURE)
        return measure

    @property
    def attack(self) -> Any:
        """The attack that its measure runs; None where it runs none."""
        kind = self.measure.attacked
        return None if kind is None else self.create(kind)

    @property
    def data_set(self) -> DataSet | None:
        """The data set that it needs, if any."""
        task: Task = self.create(Kind.TASK)
        return task.data_set if self.measure.needs_data or task.model_from_data else None

    def entry(self, kind: Kind) -> Entry:
        """One of its parts in the registry."""
        return registry.get(kind, self.configuration[kind]["name"])

    def create(self, kind: Kind) -> Any:
        """One of its parts with all parameters set."""
        return self.entry(kind).create(**self.configuration[kind]["parameters"])


@dataclass(frozen=True)
class Choice:
    """A task, measure, attack or defense with its parameters, under the name that the tables show."""

    label: str
    name: str
    parameters: Mapping[str, Any]
    sweep: Mapping[str, Any] = field(default_factory=dict)
    """As in a cell; empty where its suite sweeps over none of its parameters."""

    def create(self, kind: Kind) -> Any:
        """The thing itself."""
        return registry.get(kind, self.name).create(**self.parameters)


def plan(suite: Suite) -> list[Cell]:
    """All cells, in the order of the file; two that are the same in everything are refused."""
    cells: dict[str, Cell] = {}
    for part in (suite, *suite.parts):
        for cell in _cells(part):
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


def _cells(suite: Suite) -> Iterator[Cell]:
    tasks = _choices(suite, Kind.TASK, suite.tasks, suite.task, suite.overrides)
    name = suite.measure.get("use", ROBUSTNESS)
    if not isinstance(name, str):
        raise SuiteError(f"{suite.source}: [measure]: use must be the name of a measure (fflbench list measures)")
    measures = _choices(suite, Kind.MEASURE, [name], {name: suite.measure}, {})
    attacks = _attacks(suite, name, measures[0].create(Kind.MEASURE))
    defenses = _choices(suite, Kind.DEFENSE, suite.defenses, suite.defense, {})
    for task, attack, measure, defense in itertools.product(tasks, attacks, measures, defenses):
        chosen = {Kind.TASK: task, Kind.MEASURE: measure, **attack, Kind.DEFENSE: defense}
        if not _applies(suite, chosen):
            continue
        strategies = [other for each in attacks for other in each.values() if other.label == _label(attack)]
        row = _row(defense, strategies, *attack.values())
        if row is None:
            continue
        for seed in suite.seeds:
            yield _cell(seed, {**chosen, Kind.DEFENSE: row})


def _applies(suite: Suite, chosen: Mapping[Kind, Choice]) -> bool:
    """Whether a measure makes sense for a defense; what could only fail later is refused."""
    created = {kind: choice.create(kind) for kind, choice in chosen.items()}
    task, measure, defense = (created.pop(kind) for kind in (Kind.TASK, Kind.MEASURE, Kind.DEFENSE))
    under = "".join(f" under {chosen[kind].label}" for kind in created)
    try:
        with plugin_code("planning it failed"):
            if not measure.applies(defense):
                return False
            measure.check(task, defense, next(iter(created.values()), None))
            operator.index(measure.steps(task))
    except FflbenchError as error:
        raise SuiteError(f"{suite.source}: [defense.{chosen[Kind.DEFENSE].label}]{under}: {error}") from error
    return True


def _attacks(suite: Suite, name: str, measure: Measure) -> list[dict[Kind, Choice]]:
    """The attacks that a measure runs; one that runs none has an empty one."""
    kind = measure.attacked
    if kind is None:
        if suite.attacks:
            raise SuiteError(f'{suite.source}: measure "{name}" has no attacks')
        return [{}]
    if not suite.attacks:
        raise SuiteError(f'{suite.source}: measure "{name}" needs attacks (fflbench list {kind.plural})')
    choices = _choices(suite, kind, suite.attacks, suite.attack, {})
    for choice in choices:
        with plugin_code(f'measure "{name}"'):
            takes = measure.takes(choice.create(kind))
        if not takes:
            raise SuiteError(f'{suite.source}: measure "{name}" cannot run "{choice.label}"')
    return [{kind: choice} for choice in choices]


def _label(attack: Mapping[Kind, Choice]) -> str:
    return next((choice.label for choice in attack.values()), "")


def _row(defense: Choice, alike: Sequence[Choice], attack: Choice | None = None) -> Choice | None:
    """A defense under the label of its row: where fragments are exchanged, attacks that differ in their strategy alone
    have a row each; elsewhere strategies make no difference, and the first stands for all.
    """
    strategies = [other.parameters[STRATEGY] for other in alike if STRATEGY in other.parameters]
    if attack is None or len(strategies) < 2:
        return defense
    with plugin_code(f'defense "{defense.name}"'):
        exchanges = defense.create(Kind.DEFENSE).exchanges
    strategy = attack.parameters[STRATEGY]
    if not exchanges:
        return defense if strategy == min(strategies) else None
    end = f", strategy {strategy}"
    sweep = {**defense.sweep, "label": defense.sweep["label"] + end} if defense.sweep else {}
    return replace(defense, label=defense.label + end, sweep=sweep)


def _cell(seed: int, chosen: Mapping[Kind, Choice]) -> Cell:
    configuration = {
        kind.value: {"name": choice.name, "parameters": choice.parameters} for kind, choice in chosen.items()
    }
    labels = {kind.value: choice.label for kind, choice in chosen.items()}
    sweep = {kind.value: choice.sweep for kind, choice in chosen.items() if choice.sweep}
    return Cell({**configuration, "seed": seed}, labels, sweep)


def _choices(
    suite: Suite, kind: Kind, labels: list[str], tables: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> list[Choice]:
    found = []
    for label in _spelled_out(labels, tables) if kind is Kind.DEFENSE else labels:
        where = f"{suite.source}: [{kind}.{label}]" if label in tables else f"{suite.source}: {kind.plural}"
        where = f"{suite.source}: [{kind}]" if kind is Kind.MEASURE else where
        given = {**common, **tables.get(label, {})}
        name = given.pop("use", label)
        if not isinstance(name, str):
            raise SuiteError(f"{where}: use = {name!r} must be the name of a registered {kind}")
        try:
            entry = registry.get(kind, name)
            for varied in _grid(given, entry.parameters):
                kept = _kept(entry, given | varied)
                found.append(Choice(label + _suffix(varied), name, kept, _sweep(label, varied, given, kept)))
                entry.create(**given | varied)
        except FflbenchError as error:
            raise SuiteError(f"{where}: {error}") from error
    return found


def _suffix(varied: Mapping[str, Any]) -> str:
    # How attackers behave in an exchange is told with the defense that has one.
    told = ", ".join(f"{name} = {value}" for name, value in varied.items() if name != STRATEGY)
    return f" ({told})" if told else ""


def _sweep(
    label: str, varied: Mapping[str, Any], given: Mapping[str, Any], kept: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The axis of tables and plots: of the parameters with a list of numbers the one with most values, if any."""
    several = [name for name in varied if name != STRATEGY and len(given[name]) > 1]
    numeric = [name for name in several if all(type(each) in (int, float) for each in given[name])]
    if not numeric:
        return {}
    parameter = max(numeric, key=lambda name: len(given[name]))
    others = {name: value for name, value in varied.items() if name != parameter}
    return {"parameter": parameter, "value": kept[parameter], "label": label + _suffix(others)}


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


def _grid(given: Mapping[str, Any], known: tuple[Parameter, ...]) -> Iterator[dict[str, Any]]:
    """Every combination of values of the parameters that are no lists and were given one."""
    lists = {parameter.name for parameter in known if get_origin(plain_type(parameter.annotation)) in (list, tuple)}
    varied = [name for name, value in given.items() if isinstance(value, list) and name not in lists]
    for name in varied:
        if not given[name]:
            raise ParameterError(f"{name} is an empty list of values")
    for values in itertools.product(*(given[name] for name in varied)):
        yield dict(zip(varied, values, strict=True))
