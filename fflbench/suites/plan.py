"""Plan of a suite: cells of every task with every attack, defense and seed, each checked before anything runs."""

import itertools
import json
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_origin

from fflbench import parameters, registry
from fflbench.errors import FflbenchError, ParameterError, SuiteError, plugin_code
from fflbench.federation import chain
from fflbench.federation.chain import Parts
from fflbench.measures import Measure
from fflbench.parameters import Parameter, plain_type
from fflbench.records.parts import CHAIN, GOALS, goal_of, restricted, values_of
from fflbench.records.validation import DEVIATION, check_label
from fflbench.registry import Entry, Kind
from fflbench.suites.cell import Cell, create_deviation, deviation_class
from fflbench.suites.suite import Suite
from fflbench.tasks import Task

ROBUSTNESS = "robustness"
"""Measure of a suite that names none."""


@dataclass(frozen=True)
class Choice:
    """Task, measure, attack, defense or deviation with its parameters, under the label that tables show."""

    label: str
    configuration: Mapping[str, Any]
    sweep: Mapping[str, Any] = field(default_factory=dict)
    """Sweep, as in a cell; empty where its suite sweeps over none of its parameters."""

    def create(self, kind: Kind) -> Any:
        """Return the plugin with its parameters set."""
        if kind is Kind.DEFENSE:
            return chain.create(self.configuration)
        return registry.get(kind, self.configuration["name"]).create(**self.configuration["parameters"])


def plan(suite: Suite) -> list[Cell]:
    """Return all cells, in the order of the file; defenses share cells that depend on none of their differences."""
    cells: dict[str, Cell] = {}
    sections = [_section(part) for part in (suite, *suite.parts)]
    goals = _goals(sections)
    for part, section in zip((suite, *suite.parts), sections, strict=True):
        for cell in _cells(part, section, goals):
            with _located(part.source):
                for label in cell.labels.values():
                    _check_label(label)
                cells[cell.id] = _shared(cells[cell.id], cell) if _id(cell) in cells else cell
    return list(cells.values())


def _check_label(label: str) -> None:
    try:
        check_label(label)
    except ValueError as error:
        raise ParameterError(str(error)) from error


def _id(cell: Cell) -> str:
    try:
        return cell.id
    except ValueError as error:
        raise ParameterError(str(error)) from error


def _shared(cell: Cell, other: Cell) -> Cell:
    """Return a cell that another defense shares; refuse a duplicate that differs only in its labels."""
    label = other.labels["defense"]
    alike = {**cell.labels, "defense": ""} == {**other.labels, "defense": ""}
    taken = label in (cell.labels["defense"], *cell.shared_by)
    if set(cell.configuration["defense"]) == set(CHAIN) or taken or not alike:
        raise ParameterError(f"{other} and {cell} are the same cell under two labels")
    return replace(cell, shared_by={**cell.shared_by, label: other.sweep.get("defense", {})})


@dataclass(frozen=True)
class Section:
    """Measures, and tasks with their attacks, of a suite or of one of its `also` tables."""

    measure: str
    measures: list[Choice]
    pairs: list[tuple[Choice, dict[str, Choice]]]
    """Every task with every attack; attacks are empty where the measure runs none."""


def _section(suite: Suite) -> Section:
    tasks = _choices(suite, Kind.TASK, suite.tasks, suite.task, suite.overrides)
    name = suite.measure.get("use", ROBUSTNESS)
    if not isinstance(name, str):
        raise SuiteError(f"{suite.source}: [measure]: use must be the name of a measure (fflbench list measures)")
    measures = _choices(suite, Kind.MEASURE, [name], {name: suite.measure})
    measure = measures[0].create(Kind.MEASURE)
    pairs = [(task, attack) for task in tasks for attack in _attacks(suite, name, measure, task.create(Kind.TASK))]
    return Section(name, measures, pairs)


def _goals(sections: Sequence[Section]) -> dict[str, list[dict[str, Any]]]:
    """Return the goals of all targeted attacks of a suite, by task."""
    goals: dict[str, list[dict[str, Any]]] = {}
    for task, attacks in itertools.chain.from_iterable(section.pairs for section in sections):
        known = goals.setdefault(_key(task), [])
        if Kind.ATTACK in attacks and attacks[Kind.ATTACK].create(Kind.ATTACK).targeted:
            goal = goal_of(attacks[Kind.ATTACK].configuration)
            known += [goal] * (goal not in known)
    return goals


def _key(choice: Choice) -> str:
    return json.dumps(choice.configuration, sort_keys=True)


def _cells(suite: Suite, section: Section, goals: Mapping[str, list[dict[str, Any]]]) -> Iterator[Cell]:
    measure = section.measures[0].create(Kind.MEASURE)
    defenses = _defenses(suite, measure)
    deviations = _deviations(suite, section.measure, measure, defenses)
    for (task, attack), setting, defense in itertools.product(section.pairs, section.measures, defenses):
        chosen: dict[str, Choice] = {Kind.TASK: task, Kind.MEASURE: setting, **attack, Kind.DEFENSE: defense}
        created = {kind: choice.create(Kind(kind)) for kind, choice in chosen.items()}
        if not _applies(suite, chosen, created):
            continue
        ways = deviations.get(defense.configuration.get("transport", {}).get("name"), [])
        acting = [{DEVIATION: way} for way in ways if _acts(way, created[Kind.TASK], created[Kind.ATTACK])]
        for way, seed in itertools.product(acting or [{}], suite.seeds):
            scored = _scored(created, goals[_key(task)])
            yield _cell(seed, {**chosen, **way}, {GOALS: scored} if scored else {})


def _scored(created: Mapping[str, Any], goals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the goals that a cell without attackers is scored for, so that excess success can be computed."""
    attack = created.get(Kind.ATTACK)
    alone = attack is not None and not attack.targeted and attack.count(created[Kind.TASK].participants) == 0
    return goals if alone else []


def _cell(seed: int, chosen: Mapping[str, Choice], others: Mapping[str, Any]) -> Cell:
    configuration: dict[str, Any] = {str(kind): choice.configuration for kind, choice in chosen.items()}
    labels = {str(kind): choice.label for kind, choice in chosen.items()}
    sweep = {str(kind): choice.sweep for kind, choice in chosen.items() if choice.sweep}
    return Cell({**configuration, **others, "seed": seed}, labels, sweep)


def _applies(suite: Suite, chosen: Mapping[str, Choice], created: Mapping[str, Any]) -> bool:
    """Return whether a measure applies to a defense; refuse combinations that could only fail later."""
    task, measure, defense = (created[kind] for kind in (Kind.TASK, Kind.MEASURE, Kind.DEFENSE))
    attacks = [kind for kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK) if kind in chosen]
    under = "".join(f" under {chosen[kind].label}" for kind in attacks)
    with _located(f"{suite.source}: [defense.{chosen[Kind.DEFENSE].label}]{under}"), plugin_code("planning it failed"):
        if not measure.applies(defense):
            return False
        measure.check(task, defense, created[attacks[0]] if attacks else None)
        operator.index(measure.steps(task))
    return True


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Add the place in the suite to error messages."""
    try:
        yield
    except FflbenchError as error:
        raise SuiteError(f"{where}: {error}") from error


# Tasks, measures and attacks


def _attacks(suite: Suite, name: str, measure: Measure, task: Task) -> list[dict[str, Choice]]:
    """Return the attacks that a measure runs on a task; one empty choice for a measure that runs none."""
    kind = measure.attacked
    if kind is None:
        if suite.attacks:
            raise SuiteError(f'{suite.source}: measure "{name}" runs no attacks: leave them out')
        return [{}]
    if not suite.attacks:
        raise SuiteError(f'{suite.source}: measure "{name}" needs attacks (fflbench list {kind.plural})')
    choices = _choices(suite, kind, suite.attacks, suite.attack, defaults=task.attack_defaults)
    for choice in choices:
        with plugin_code(f'measure "{name}"'):
            takes = measure.takes(choice.create(kind))
        if not takes:
            raise SuiteError(f'{suite.source}: measure "{name}" cannot run "{choice.label}"')
    return [{kind: choice} for choice in choices]


def _choices(
    suite: Suite,
    kind: Kind,
    labels: Sequence[str],
    tables: Mapping[str, Mapping[str, Any]],
    common: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Choice]:
    """Return what labels stand for, with all parameters; `defaults` apply by name where a table sets nothing."""
    choices = []
    for label in labels:
        where = f"[{kind}]" if kind is Kind.MEASURE else f"[{kind}.{label}]" if label in tables else kind.plural
        with _located(f"{suite.source}: {where}"):
            name, given = _used(kind, label, {**(common or {}), **tables.get(label, {})})
            entry = registry.get(kind, name)
            for varied in _grid(given, _lists(entry.parameters)):
                checked = entry.check({**(defaults or {}).get(name, {}), **given, **varied})
                configuration = _kept(entry, {"name": name, "parameters": checked})
                choices.append(_choice(label, given, varied, configuration))
                choices[-1].create(kind)
    return choices


def _used(kind: Kind, label: str, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name that a table uses (default: its label) and the rest of the table."""
    given = dict(table)
    name = given.pop("use", label)
    if not isinstance(name, str):
        raise ParameterError(f"use = {name!r} must be the name of a registered {kind}")
    return name, given


def _choice(
    label: str, given: Mapping[str, Any], varied: Mapping[str, Any], configuration: Mapping[str, Any]
) -> Choice:
    """Return one point of a grid.

    The axis of tables and plots is the parameter with most values of those with a list of numbers, if any.
    """
    several = [name for name in varied if len(given[name]) > 1]
    numeric = [name for name in several if all(type(each) in (int, float) for each in given[name])]
    sweep: dict[str, Any] = {}
    if numeric:
        parameter = max(numeric, key=lambda name: len(given[name]))
        others = {name: value for name, value in varied.items() if name != parameter}
        for value in [value for value in values_of(configuration, parameter) if value == varied[parameter]][:1]:
            sweep = {"parameter": parameter, "value": value, "label": label + _suffix(others)}
    return Choice(label + _suffix(varied), configuration, sweep)


def _suffix(varied: Mapping[str, Any]) -> str:
    return f" ({_listed(varied)})" if varied else ""


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _kept(owner: object, configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration, or raise an error if no record can hold it."""
    try:
        json.dumps(configuration, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{owner}: no record can hold its parameters ({error})") from error
    return configuration


def _lists(known: Sequence[Parameter]) -> set[str]:
    """Return the names of parameters whose value is a list, so that a list is no sweep."""
    return {each.name for each in known if get_origin(plain_type(each.annotation)) in (list, tuple)}


def _grid(given: Mapping[str, Any], lists: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of parameters that are swept over."""
    varied = [name for name, value in given.items() if isinstance(value, list) and name not in lists]
    for name in varied:
        if not given[name]:
            raise ParameterError(f"{name} is an empty list of values")
    for values in itertools.product(*(given[name] for name in varied)):
        yield dict(zip(varied, values, strict=True))


# Defenses


def _defenses(suite: Suite, measure: Measure) -> list[Choice]:
    """Return chains with their parameters, each restricted to the parts that the measure depends on."""
    choices = []
    with _located(f"{suite.source}: defenses"):
        labels = _spelled_out(suite.defenses, suite.defense)
    for label in labels:
        where = f"[defense.{label}]" if label in suite.defense else "defenses"
        with _located(f"{suite.source}: {where}"):
            text, table = _used(Kind.DEFENSE, label, suite.defense.get(label, {}))
            parts = chain.parse(text)
            given = _flat(parts, table)
            for varied in _grid(given, _lists_of(parts)):
                whole = parts.check(_nested(parts, given | varied, measure.mode))
                chain.create(whole)
                choices.append(_choice(label, given, varied, _kept(f'defense "{parts}"', whole)))
    return [_restricted(choice, measure.depends_on) for choice in choices]


def _restricted(choice: Choice, depends_on: Collection[str]) -> Choice:
    """Return a defense without the parts that make no difference, and without a sweep over those."""
    kept = restricted(choice.configuration, depends_on)
    swept = choice.sweep and choice.sweep["value"] in values_of(kept, choice.sweep["parameter"])
    return Choice(choice.label, kept, choice.sweep if swept else {})


def _flat(parts: Parts, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as one table, those of a single part under names such as `clipping.bound`."""
    names = {entry.name for entry in parts.entries}
    flat: dict[str, Any] = {}
    for name, value in table.items():
        own = name in names and isinstance(value, Mapping)
        flat |= {f"{name}.{inner}": of_part for inner, of_part in value.items()} if own else {name: value}
    return flat


def _nested(parts: Parts, flat: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Return parameters in one table per part; set the measure's mode where a part has it and the suite sets none."""
    nested: dict[str, Any] = {}
    for entry in parts.entries:
        start = f"{entry.name}."
        own = {name.removeprefix(start): value for name, value in flat.items() if name.startswith(start)}
        modes = next((get_args(plain_type(each.annotation)) for each in entry.parameters if each.name == "mode"), ())
        if mode == "full" and mode in modes and "mode" not in flat:
            own = {"mode": mode, **own}
        if own:
            nested[entry.name] = own
    starts = tuple(f"{entry.name}." for entry in parts.entries)
    return {name: value for name, value in flat.items() if not name.startswith(starts)} | nested


def _lists_of(parts: Parts) -> set[str]:
    return {
        spelled
        for entry in parts.entries
        for name in _lists(entry.parameters)
        for spelled in (name, f"{entry.name}.{name}")
    }


def _spelled_out(labels: Sequence[str], tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return labels with every other registered rule and named chain in the place of a star."""
    if "*" not in labels:
        return list(labels)
    taken = set()
    for label in labels:
        # A label that is no defense is refused where its table is read.
        with suppress(FflbenchError):
            taken.add(str(chain.parse(_used(Kind.DEFENSE, label, tables.get(label, {}))[0])))
    others = []
    for entry in (*registry.entries(Kind.RULE), *registry.entries(Kind.DEFENSE)):
        parts = chain.parse(entry.name)
        # A transport that shows only a sum may be ideal, without a protocol whose cost could be measured.
        if str(parts) not in taken and parts.transport.target.rows != "sum" and not _missing(parts.transport):
            others.append(entry.name)
    return [name for label in labels for name in (sorted(others) if label == "*" else [label])]


def _missing(transport: Entry) -> str:
    """Return what a transport needs that is not installed."""
    with plugin_code(transport):
        missing: str = transport.target.missing()
        return missing


# Deviations


def _deviations(suite: Suite, name: str, measure: Measure, defenses: Sequence[Choice]) -> dict[str, list[Choice]]:
    """Return deviations from the protocol of each transport that the suite has a table for."""
    used = {defense.configuration.get("transport", {}).get("name") for defense in defenses}
    deviations: dict[str, list[Choice]] = {}
    for transport, given in suite.deviation.items():
        with _located(f"{suite.source}: [{DEVIATION}.{transport}]"):
            declared = deviation_class(transport)
            if measure.attacked is not Kind.ATTACK:
                raise ParameterError(f'measure "{name}" runs no poisoning attacks, so that nobody deviates')
            if transport not in used and not suite.narrowed:
                raise ParameterError(f'no defense here has the transport "{transport}"')
            deviations[transport] = [
                _way(transport, given | varied) for varied in _grid(given, _lists(parameters.of_dataclass(declared)))
            ]
    return deviations


def _way(transport: str, given: Mapping[str, Any]) -> Choice:
    checked, _ = create_deviation(transport, given)
    configuration = _kept(f'deviation "{transport}"', {"name": transport, "parameters": checked})
    return Choice(_listed(given or checked), configuration)


def _acts(way: Choice, task: Task, attack: Any) -> bool:
    """Return whether a deviation changes anything; one that only attackers take needs some."""
    _, deviation = create_deviation(way.configuration["name"], way.configuration["parameters"])
    return not deviation.needs_attackers or attack.count(task.participants) > 0
