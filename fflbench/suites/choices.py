"""Choices of a suite: plugins with their parameters, one for each combination of the values in lists."""

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_origin

from fflbench import registry
from fflbench.errors import FflbenchError, ParameterError, SuiteError
from fflbench.federation import attack_chain, chain
from fflbench.plugin_parameters import Parameter, type_without_metadata
from fflbench.records.cell_configuration import parameter_values
from fflbench.registry import Entry, Kind
from fflbench.suites.suite import Suite


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


@contextmanager
def error_location(where: str) -> Iterator[None]:
    """Add the place in the suite to error messages."""
    try:
        yield
    except FflbenchError as error:
        raise SuiteError(f"{where}: {error}") from error


def resolve_choices(
    suite: Suite,
    kind: Kind,
    labels: Sequence[str],
    tables: Mapping[str, Mapping[str, Any]],
    common: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Choice]:
    """Return what labels stand for, with all parameters; `defaults` apply by name where a table sets nothing."""
    found = []
    for label in labels:
        where = f"[{kind}]" if kind is Kind.MEASURE else f"[{kind}.{label}]" if label in tables else kind.plural
        with error_location(f"{suite.source}: {where}"):
            name, given = name_and_parameters(kind, label, {**(common or {}), **tables.get(label, {})})
            entries = attack_chain.parse(name) if kind is Kind.ATTACK else (registry.get(kind, name),)
            given = flatten_parameters(entries, given) if len(entries) > 1 else given
            for varied in parameter_grid(given, list_parameters_of_chain(entries)):
                configured = attack_chain.configure(entries, nest_parameters(entries, given | varied), defaults)
                found.append(grid_point(label, given, varied, check_storable(entries[0], configured)))
                found[-1].create(kind)
    return found


def flatten_parameters(entries: Sequence[Entry], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a chain as one table, those of a single part under names such as `clipping.bound`."""
    names = {entry.name for entry in entries}
    flat: dict[str, Any] = {}
    for name, value in table.items():
        own = name in names and isinstance(value, Mapping)
        flat |= {f"{name}.{inner}": of_part for inner, of_part in value.items()} if own else {name: value}
    return flat


def nest_parameters(entries: Sequence[Entry], flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those of a single part in one table per part."""
    nested: dict[str, Any] = {}
    for entry in entries if len(entries) > 1 else ():
        start = f"{entry.name}."
        if own := {name.removeprefix(start): value for name, value in flat.items() if name.startswith(start)}:
            nested[entry.name] = own
    starts = tuple(f"{name}." for name in nested)
    return {name: value for name, value in flat.items() if not name.startswith(starts)} | nested


def list_parameters_of_chain(entries: Sequence[Entry]) -> set[str]:
    """Return the names of list parameters of all parts of a chain, alone and with their part's name."""
    return {
        spelled
        for entry in entries
        for name in list_parameters(entry.parameters)
        for spelled in (name, f"{entry.name}.{name}")
    }


def name_and_parameters(kind: Kind, label: str, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name that a table uses (default: its label) and the rest of the table."""
    given = dict(table)
    name = given.pop("use", label)
    if not isinstance(name, str):
        raise ParameterError(f"use = {name!r} must be the name of a registered {kind}")
    return name, given


def grid_point(
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
        for value in [value for value in parameter_values(configuration, parameter) if value == varied[parameter]][:1]:
            sweep = {"parameter": parameter, "value": value, "label": label + _label_suffix(others)}
    return Choice(label + _label_suffix(varied), configuration, sweep)


def _label_suffix(varied: Mapping[str, Any]) -> str:
    return f" ({format_parameters(varied)})" if varied else ""


def format_parameters(values: Mapping[str, Any]) -> str:
    """Return parameters as a label shows them."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def check_storable(owner: object, configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration, or raise an error if no record can hold it."""
    try:
        json.dumps(configuration, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{owner}: no record can hold its parameters ({error})") from error
    return configuration


def list_parameters(known: Sequence[Parameter]) -> set[str]:
    """Return the names of parameters whose value is a list, so that a list is no sweep."""
    return {each.name for each in known if get_origin(type_without_metadata(each.annotation)) in (list, tuple)}


def parameter_grid(given: Mapping[str, Any], lists: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of parameters that are swept over."""
    varied = [name for name, value in given.items() if isinstance(value, list) and name not in lists]
    for name in varied:
        if not given[name]:
            raise ParameterError(f"{name} is an empty list of values")
    for values in itertools.product(*(given[name] for name in varied)):
        yield dict(zip(varied, values, strict=True))
