"""Knowledge that attackers need, by which leaderboards may leave attacks out and tables describe them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.federation.attack import Attack
from fflbench.records.cell_configuration import registered_parts
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.record_groups import attack_kind


def filter_by_attacker_knowledge(records: Iterable[Record], allowed: Iterable[str]) -> list[Record]:
    """Return the records of a threat model: attackers who need no knowledge beyond what is allowed."""
    known = set(allowed)
    return [record for record in records if set(required_knowledge(record)) <= known]


def required_knowledge(record: Record) -> Iterable[str]:
    """Return the knowledge that the attacker of a record needs: by the record itself, else by the plugin."""
    if "knows" in record.facts:
        knows: list[str] = record.facts["knows"]
        return knows
    kind = attack_kind(record)
    with suppress(FflbenchError):
        if kind == Kind.ATTACK and (needed := _needed_knowledge(record.configuration[kind])) is not None:
            return needed
    parts = [part for part in registered_parts(record.configuration) if part.key.partition(" + ")[0] == kind]
    entries = [registry.find(part.kind, part.name) for part in parts]
    return [known for entry in entries if entry for known in entry.knows]


def _needed_knowledge(attack: Mapping[str, Any]) -> Iterable[str] | None:
    """Return the knowledge that a poisoning attack needs with its parameters, or None where they do not matter."""
    entry = registry.get(Kind.ATTACK, attack["name"])
    if entry.target.needed_knowledge is Attack.needed_knowledge:
        return None
    needed: tuple[str, ...] = entry.create(**attack["parameters"]).needed_knowledge
    return needed
