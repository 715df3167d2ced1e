"""Choices of a suite's defenses, and of deviations from their transports' protocols."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

from fflbench import plugin_parameters, registry
from fflbench.errors import FflbenchError, ParameterError, name_plugin_in_errors
from fflbench.federation import chain
from fflbench.federation.chain import Parts
from fflbench.measures import Measure
from fflbench.plugin_parameters import type_without_metadata
from fflbench.records.cell_configuration import parameter_values, restrict_defense
from fflbench.records.validation import DEVIATION
from fflbench.registry import Entry, Kind
from fflbench.suites.cell import create_deviation, deviation_class
from fflbench.suites.choices import (
    Choice,
    check_storable,
    error_location,
    flatten_parameters,
    format_parameters,
    grid_point,
    list_parameters,
    list_parameters_of_chain,
    name_and_parameters,
    nest_parameters,
    parameter_grid,
)
from fflbench.suites.suite import Suite
from fflbench.tasks import Task


def defense_choices(suite: Suite, measure: Measure) -> list[Choice]:
    """Return chains with their parameters, each restricted to the parts that the measure depends on."""
    choices: list[Choice] = []
    with error_location(f"{suite.source}: defenses"):
        labels = _expand_star(suite.defenses, suite.defense)
    for label in labels:
        where = f"[defense.{label}]" if label in suite.defense else "defenses"
        with error_location(f"{suite.source}: {where}"):
            text, table = name_and_parameters(Kind.DEFENSE, label, suite.defense.get(label, {}))
            choices += chain_choices(label, text, table, measure)
    return choices


def chain_choices(label: str, text: str, table: Mapping[str, Any], measure: Measure) -> list[Choice]:
    """Return one chain with its parameters, restricted to the parts that the measure depends on."""
    choices, parts = [], chain.parse(text)
    given = flatten_parameters(parts.entries, table)
    for varied in parameter_grid(given, list_parameters_of_chain(parts.entries)):
        whole = parts.check(_parameters_by_part(parts, given | varied, measure.mode))
        chain.create(whole)
        choices.append(grid_point(label, given, varied, check_storable(f'defense "{parts}"', whole)))
    return [_restrict(choice, measure.depends_on) for choice in choices]


def _restrict(choice: Choice, depends_on: Collection[str]) -> Choice:
    """Return a defense without the parts that make no difference, and without a sweep over those."""
    kept = restrict_defense(choice.configuration, depends_on)
    swept = choice.sweep and choice.sweep["value"] in parameter_values(kept, choice.sweep["parameter"])
    return Choice(choice.label, kept, choice.sweep if swept else {})


def _parameters_by_part(parts: Parts, flat: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Return parameters in one table per part; set the measure's mode where a part has it and the suite sets none."""
    nested = nest_parameters(parts.entries, flat)
    for entry in parts.entries:
        modes = next(
            (get_args(type_without_metadata(each.annotation)) for each in entry.parameters if each.name == "mode"), ()
        )
        if mode == "full" and mode in modes and "mode" not in flat:
            nested[entry.name] = {"mode": mode, **nested.get(entry.name, {})}
    return nested


def _expand_star(labels: Sequence[str], tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return labels with other registered rules and named chains in the place of a star."""
    if "*" not in labels:
        return list(labels)
    taken = set()
    for label in labels:
        # A label that is no defense is refused where its table is read.
        with suppress(FflbenchError):
            taken.add(str(chain.parse(name_and_parameters(Kind.DEFENSE, label, tables.get(label, {}))[0])))
    others = []
    for entry in (*registry.entries(Kind.RULE), *registry.entries(Kind.DEFENSE)):
        parts = chain.parse(entry.name)
        # A transport that shows only a sum may be ideal, without a protocol whose cost could be measured. Not every
        # task has examples at the server.
        if (
            str(parts) not in taken
            and not parts.rule.root_update
            and parts.transport.target.rows != "sum"
            and not _missing_dependency(parts.transport)
        ):
            others.append(entry.name)
    return [name for label in labels for name in (sorted(others) if label == "*" else [label])]


def _missing_dependency(transport: Entry) -> str:
    """Return what a transport needs that is not installed."""
    with name_plugin_in_errors(transport):
        missing: str = transport.target.missing_dependency()
        return missing


def deviation_choices(suite: Suite, name: str, measure: Measure, defenses: Sequence[Choice]) -> dict[str, list[Choice]]:
    """Return deviations from the protocol of each transport that the suite has a table for."""
    used = {defense.configuration.get("transport", {}).get("name") for defense in defenses}
    deviations: dict[str, list[Choice]] = {}
    for transport, given in suite.deviation.items():
        with error_location(f"{suite.source}: [{DEVIATION}.{transport}]"):
            declared = deviation_class(transport)
            if measure.attacked is not Kind.ATTACK:
                raise ParameterError(f'measure "{name}" runs no poisoning attacks, so that nobody deviates')
            if transport not in used and not suite.narrowed:
                raise ParameterError(f'no defense here has the transport "{transport}"')
            deviations[transport] = [
                _deviation_choice(transport, given | varied)
                for varied in parameter_grid(
                    given, list_parameters(plugin_parameters.parameters_of_dataclass(declared))
                )
            ]
    return deviations


def _deviation_choice(transport: str, given: Mapping[str, Any]) -> Choice:
    checked, _ = create_deviation(transport, given)
    configuration = check_storable(f'deviation "{transport}"', {"name": transport, "parameters": checked})
    return Choice(format_parameters(given or checked), configuration)


def deviation_has_effect(way: Choice, task: Task, attack: Any) -> bool:
    """Return whether a deviation changes anything; one that only attackers take needs some."""
    _, deviation = create_deviation(way.configuration["name"], way.configuration["parameters"])
    return not deviation.needs_attackers or attack.count(task.participants) > 0
