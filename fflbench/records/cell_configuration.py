"""Parts of a cell's configuration: a task, a measure, perhaps an attack, and the chain that its defense is."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.federation import chain
from fflbench.federation.attack_chain import INNER, AttackWrapper
from fflbench.registry import Kind

CHAIN = {"transport": Kind.TRANSPORT, "preaggregations": Kind.PREAGGREGATION, "rule": Kind.RULE}
"""Keys of a defense's configuration, in their order."""


GOALS = "goals"
"""Key of the attacks for whose goals a cell without attackers is scored."""


class ConfiguredPart(NamedTuple):
    """Registered plugin with its parameters."""

    key: str
    """Key of its results version in a manifest."""
    kind: Kind
    name: str
    parameters: Mapping[str, Any]


def registered_parts(configuration: Mapping[str, Any]) -> Iterator[ConfiguredPart]:
    """Yield all registered parts of a cell, those of its defense one by one."""
    for kind in Kind:
        if kind is Kind.DEFENSE:
            yield from defense_parts(configuration[kind])
        elif kind in configuration:
            yield from _with_inner(ConfiguredPart(kind.value, kind, **_named(configuration[kind])))
    if observation := _attacked_observation(configuration["measure"]):
        yield ConfiguredPart(Kind.OBSERVATION.value, Kind.OBSERVATION, observation, {})
    for goal in configuration.get(GOALS, ()):
        yield from _with_inner(ConfiguredPart(f"goal {goal['name']}", Kind.ATTACK, **_named(goal)))
    if isinstance(engine := configuration["task"]["parameters"].get("engine"), str):
        yield ConfiguredPart(Kind.ENGINE.value, Kind.ENGINE, engine, {})


def _named(configured: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": configured["name"], "parameters": configured["parameters"]}


def _with_inner(part: ConfiguredPart) -> Iterator[ConfiguredPart]:
    """Yield an attack without the one that it wraps, if any, and then that one."""
    inner: Any = part.parameters.get(INNER) if part.kind is Kind.ATTACK else None
    if not is_configured_part(inner):
        yield part
        return
    yield part._replace(parameters={name: value for name, value in part.parameters.items() if name != INNER})
    yield from _with_inner(ConfiguredPart(f"{part.key} + {inner['name']}", part.kind, **_named(inner)))


def _attacked_observation(measure: Mapping[str, Any]) -> str:
    """Return the registered observation that a measure attacks by its parameters, or ""."""
    entry = registry.find(Kind.MEASURE, measure["name"])
    name = measure["parameters"].get(entry.target.observed) if entry else None
    return name if isinstance(name, str) and registry.find(Kind.OBSERVATION, name) else ""


def defense_parts(defense: Mapping[str, Any]) -> Iterator[ConfiguredPart]:
    """Yield the parts of a defense that its configuration has: all, or those that a measure depends on."""
    for key, kind in CHAIN.items():
        several = kind is Kind.PREAGGREGATION
        for part in defense.get(key, ()) if several else [defense[key]] if key in defense else ():
            key = f"{kind} {part['name']}" if several else kind.value
            yield ConfiguredPart(key, kind, part["name"], part["parameters"])


def restrict_defense(defense: Mapping[str, Any], depends_on: Collection[str]) -> dict[str, Any]:
    """Return those parts of a defense that a measure depends on."""
    return {key: defense[key] for key in CHAIN if key in depends_on}


def defense_name(defense: Mapping[str, Any]) -> str:
    """Return the name that a chain is registered under, or else those of its parts, as in "nnm + median"."""
    names = [part.name for part in defense_parts(defense)]
    for entry in registry.entries(Kind.DEFENSE):
        # An outside chain may be made of parts that are not here.
        with suppress(FflbenchError):
            if [part.name for part in chain.parse(entry.target).entries] == names:
                return entry.name
    return chain.chain_text(names)


def parameter_values(configured: Mapping[str, Any], parameter: str) -> list[Any]:
    """Return the values of a parameter in all parts that have it; as `clipping.bound`, in one part of a defense."""
    whole = "parameters" in configured
    parts = _with_inner(ConfiguredPart("", Kind.ATTACK, **_named(configured))) if whole else defense_parts(configured)
    named = [(part, parameter.removeprefix(f"{part.name}.")) for part in parts]
    return [part.parameters[name] for part, name in named if name in part.parameters]


def goal_of(attack: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attack's configuration as far as its goal depends on it: without the share of attackers.

    The goal of a wrapper is that of the attack inside it, unless it has its own.
    """
    inner, entry = attack["parameters"].get(INNER), registry.find(Kind.ATTACK, attack["name"])
    if is_configured_part(inner) and (entry is None or entry.target.goal is AttackWrapper.goal):
        return goal_of(inner)
    parameters = {name: value for name, value in attack["parameters"].items() if name != "share"}
    return {"name": attack["name"], "parameters": parameters}


def is_configured_part(value: object) -> bool:
    """Return whether a value is a name with parameters."""
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("parameters"), dict)


def is_defense_configuration(value: object) -> bool:
    """Return whether a value is the configuration of a chain, or of some parts of one."""
    if not isinstance(value, dict) or not value or not set(value) <= set(CHAIN):
        return False
    steps = value.get("preaggregations", [])
    others = [value[key] for key in ("transport", "rule") if key in value]
    return isinstance(steps, list) and all(map(is_configured_part, [*steps, *others]))
