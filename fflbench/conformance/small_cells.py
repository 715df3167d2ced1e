"""Cells of measures that are as small as their measure accepts."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fflbench import registry
from fflbench.conformance.check_registry import NotCheckedError
from fflbench.conformance.small_federation import chain_with_plugin, small_task, smallest_parameters
from fflbench.errors import ParameterError
from fflbench.federation.chain import PLAIN, Chain
from fflbench.measures.measure import Context, Measure, Outcome
from fflbench.registry import Entry, Kind

LEAST, SIZES = 2, (2, 4, 8, 16)
"""Values of the whole numbers among a measure's parameters that are tried, from the smallest."""


@dataclass(frozen=True)
class SmallCell:
    """A measure with an attack, if it takes any, behind a transport."""

    entry: Entry
    transport: Entry
    attack: Entry | None
    given: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the measure."""

    def create_measure(self) -> Measure:
        """Return the measure."""
        created: Measure = self.entry.create(**self.given)
        return created

    def create_defense(self) -> Chain:
        """Return the transport with the default rule, in the mode that the measure asks for."""
        modes = (
            {"mode": self.create_measure().mode}
            if any(each.name == "mode" for each in self.transport.parameters)
            else {}
        )
        return chain_with_plugin(self.transport, **modes)

    def create_attack(self) -> Any:
        """Return the attack, or None."""
        return self.attack and self.attack.create(**smallest_parameters(self.attack, LEAST))

    def reason_not_accepted(self) -> str:
        """Return why the measure does not accept the cell, or an empty text."""
        if not self.create_measure().applies_to(self.create_defense()):
            return f"it does not apply to {self.transport}"
        try:
            self.create_measure().check(small_task(), self.create_defense(), self.create_attack())
        except ParameterError as error:
            return str(error)
        return ""

    def run(self, attack: Any = None, **others: Any) -> Outcome:
        """Run the cell, with another object of the attack if one is given."""
        chosen = self.create_attack() if attack is None else attack
        return self.create_measure().run(Context(small_task(), self.create_defense(), 0, attack=chosen, **others))


def installed_transports() -> list[Entry]:
    """Return the transports whose libraries are installed, the plain one first."""
    here = [entry for entry in registry.entries(Kind.TRANSPORT) if not entry.target.missing_dependency()]
    return sorted(here, key=lambda entry: entry.name != PLAIN)


def small_cell(entry: Entry, attack: Entry | None, **given: Any) -> SmallCell:
    """Return a small cell of a measure and an attack that the measure accepts, behind the first transport."""
    refusals = []
    for size, transport in itertools.product(SIZES, installed_transports()):
        cell = SmallCell(entry, transport, attack, {**smallest_parameters(entry, size), **given})
        if not (refusal := cell.reason_not_accepted()):
            return _minimise_parameters(cell, given)
        refusals.append(refusal)
    raise NotCheckedError(f"{entry} cannot be checked with small numbers: {refusals[-1]}")


def _minimise_parameters(cell: SmallCell, given: Mapping[str, Any]) -> SmallCell:
    """Return a cell with every parameter as small as the measure accepts beside the others."""
    for name, value in smallest_parameters(cell.entry, LEAST).items():
        fewer = replace(cell, given={**cell.given, name: value, **given})
        cell = cell if fewer.reason_not_accepted() else fewer
    return cell


def attacks_taken_by(measure: Entry) -> list[Entry]:
    """Return the registered attacks that a measure takes."""
    created: Measure = measure.create(**smallest_parameters(measure))
    if created.attacked is None:
        return []
    return [entry for entry in registry.entries(created.attacked) if created.accepts_attack(entry.create())]


def measures_taking(attack: Entry) -> Iterator[Entry]:
    """Return the registered measures that take an attack."""
    for measure in registry.entries(Kind.MEASURE):
        if measure.target.attacked is attack.kind and measure.create().accepts_attack(attack.create()):
            yield measure
