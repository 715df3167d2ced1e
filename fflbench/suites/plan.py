"""Plan of a suite: cells of every task with every attack, defense and seed, each checked before anything runs."""

import itertools
import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fflbench import registry
from fflbench.errors import ParameterError, SuiteError, name_plugin_in_errors
from fflbench.measures import Measure
from fflbench.records.cell_configuration import CHAIN, GOALS, goal_of
from fflbench.records.validation import DEVIATION, check_label
from fflbench.registry import Kind
from fflbench.suites.cell import Cell
from fflbench.suites.choices import Choice, error_location, resolve_choices
from fflbench.suites.defense_choices import defense_choices, deviation_choices, deviation_has_effect
from fflbench.suites.suite import Suite
from fflbench.tasks import Task

ROBUSTNESS = "robustness"
"""Measure of a suite that names none."""


def plan(suite: Suite) -> list[Cell]:
    """Return all cells, in the order of the file; defenses share cells that depend on none of their differences."""
    cells: dict[str, Cell] = {}
    sections = [_resolve_section(part) for part in (suite, *suite.parts)]
    goals = _goals(sections)
    for part, section in zip((suite, *suite.parts), sections, strict=True):
        for cell in _cells_of_section(part, section, goals):
            with error_location(part.source):
                for label in cell.labels.values():
                    _check_label(label)
                cells[cell.id] = _share_cell(cells[cell.id], cell) if _checked_id(cell) in cells else cell
    return list(cells.values())


def _check_label(label: str) -> None:
    try:
        check_label(label)
    except ValueError as error:
        raise ParameterError(str(error)) from error


def _checked_id(cell: Cell) -> str:
    try:
        return cell.id
    except ValueError as error:
        raise ParameterError(str(error)) from error


def _share_cell(cell: Cell, other: Cell) -> Cell:
    """Return a cell that another defense shares; refuse a duplicate that differs only in its labels."""
    label = other.labels["defense"]
    alike = {**cell.labels, "defense": ""} == {**other.labels, "defense": ""}
    taken = label in (cell.labels["defense"], *cell.shared_by)
    if set(cell.configuration["defense"]) == set(CHAIN) or taken or not alike:
        raise ParameterError(f"{other} and {cell} are the same cell under two labels")
    return replace(cell, shared_by={**cell.shared_by, label: other.sweep.get("defense", {})})


@dataclass(frozen=True)
class ResolvedSection:
    """Measures, and tasks with their attacks, of a suite or of one of its `also` tables."""

    measure: str
    measures: list[Choice]
    pairs: list[tuple[Choice, dict[str, Choice]]]
    """Every task with every attack; attacks are empty where the measure runs none."""


def _resolve_section(suite: Suite) -> ResolvedSection:
    """Return the measures of a suite, and its tasks with their attacks, with all parameters checked."""
    tasks = resolve_choices(suite, Kind.TASK, suite.tasks, suite.task, suite.overrides)
    name = suite.measure.get("use", ROBUSTNESS)
    if not isinstance(name, str):
        raise SuiteError(f"{suite.source}: [measure]: use must be the name of a measure (fflbench list measures)")
    with error_location(f"{suite.source}: tasks"):
        for task in tasks:
            registry.get(Kind.ENGINE, task.create(Kind.TASK).engine)
    measures = resolve_choices(suite, Kind.MEASURE, [name], {name: suite.measure})
    measure = measures[0].create(Kind.MEASURE)
    pairs = [
        (task, attack) for task in tasks for attack in _attack_choices(suite, name, measure, task.create(Kind.TASK))
    ]
    return ResolvedSection(name, measures, pairs)


def _goals(sections: Sequence[ResolvedSection]) -> dict[str, list[dict[str, Any]]]:
    """Return the goals of all targeted attacks of a suite, by task."""
    goals: dict[str, list[dict[str, Any]]] = {}
    for task, attacks in itertools.chain.from_iterable(section.pairs for section in sections):
        known = goals.setdefault(_configuration_key(task), [])
        if Kind.ATTACK in attacks and attacks[Kind.ATTACK].create(Kind.ATTACK).targeted:
            goal = goal_of(attacks[Kind.ATTACK].configuration)
            known += [goal] * (goal not in known)
    # Sorted, so that the order of a suite's attacks does not enter the ids of cells.
    return {task: sorted(known, key=lambda goal: json.dumps(goal, sort_keys=True)) for task, known in goals.items()}


def _configuration_key(choice: Choice) -> str:
    return json.dumps(choice.configuration, sort_keys=True)


def _cells_of_section(
    suite: Suite, section: ResolvedSection, goals: Mapping[str, list[dict[str, Any]]]
) -> Iterator[Cell]:
    measure = section.measures[0].create(Kind.MEASURE)
    defenses = defense_choices(suite, measure)
    deviations = deviation_choices(suite, section.measure, measure, defenses)
    for (task, attack), setting, defense in itertools.product(section.pairs, section.measures, defenses):
        chosen: dict[str, Choice] = {Kind.TASK: task, Kind.MEASURE: setting, **attack, Kind.DEFENSE: defense}
        created = {kind: choice.create(Kind(kind)) for kind, choice in chosen.items()}
        if not measure_applies(suite.source, chosen, created):
            continue
        ways = deviations.get(defense.configuration.get("transport", {}).get("name"), [])
        acting = [
            {DEVIATION: way} for way in ways if deviation_has_effect(way, created[Kind.TASK], created[Kind.ATTACK])
        ]
        for way, seed in itertools.product(acting or [{}], suite.seeds):
            scored = _goals_to_score(created, goals[_configuration_key(task)])
            yield _make_cell(seed, {**chosen, **way}, {GOALS: scored} if scored else {})


def _goals_to_score(created: Mapping[str, Any], goals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the goals that a cell without attackers is scored for, so that excess success can be computed."""
    attack = created.get(Kind.ATTACK)
    alone = attack is not None and not attack.targeted and attack.count(created[Kind.TASK].participants) == 0
    return goals if alone else []


def _make_cell(seed: int, chosen: Mapping[str, Choice], others: Mapping[str, Any]) -> Cell:
    configuration: dict[str, Any] = {str(kind): choice.configuration for kind, choice in chosen.items()}
    labels = {str(kind): choice.label for kind, choice in chosen.items()}
    sweep = {str(kind): choice.sweep for kind, choice in chosen.items() if choice.sweep}
    return Cell({**configuration, **others, "seed": seed}, labels, sweep)


def measure_applies(source: str, chosen: Mapping[str, Choice], created: Mapping[str, Any]) -> bool:
    """Return whether a measure applies to a defense; refuse combinations that could only fail later."""
    task, measure, defense = (created[kind] for kind in (Kind.TASK, Kind.MEASURE, Kind.DEFENSE))
    attacks = [kind for kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK) if kind in chosen]
    under = "".join(f" under {chosen[kind].label}" for kind in attacks)
    with (
        error_location(f"{source}: [defense.{chosen[Kind.DEFENSE].label}]{under}"),
        name_plugin_in_errors("planning it failed"),
    ):
        if not measure.applies_to(defense):
            return False
        measure.check(task, defense, created[attacks[0]] if attacks else None)
        operator.index(measure.step_count(task))
    return True


def _attack_choices(suite: Suite, name: str, measure: Measure, task: Task) -> list[dict[str, Choice]]:
    """Return the attacks that a measure runs on a task; one empty choice for a measure that runs none."""
    kind = measure.attacked
    if kind is None:
        if suite.attacks:
            raise SuiteError(f'{suite.source}: measure "{name}" runs no attacks: leave them out')
        return [{}]
    if not suite.attacks:
        raise SuiteError(f'{suite.source}: measure "{name}" needs attacks (fflbench list {kind.plural})')
    attacks = resolve_choices(suite, kind, suite.attacks, suite.attack, defaults=task.attack_defaults)
    for choice in attacks:
        with name_plugin_in_errors(f'measure "{name}"'):
            takes = measure.accepts_attack(choice.create(kind))
        if not takes:
            raise SuiteError(f'{suite.source}: measure "{name}" cannot run "{choice.label}"')
    return [{kind: choice} for choice in attacks]
