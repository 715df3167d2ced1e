"""Attacks that wrap another one, and chains of them, as in "on-off + label-flipping"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from fflbench import registry
from fflbench.data import Examples
from fflbench.errors import ParameterError
from fflbench.federation.attack import Attack, AttackSetting, Goal, Known, LocalTraining
from fflbench.federation.chain import parameters_by_part
from fflbench.plugin_parameters import Parameter
from fflbench.registry import Entry, Kind
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

INNER = "inner"
"""Parameter of a wrapper that holds the attack inside it."""
DEFAULT = "gaussian-noise"
"""Attack inside a wrapper that stands alone."""


@dataclass(kw_only=True)
class AttackWrapper(Attack):
    """An attack that changes another one: every method that a subclass does not override is that of the other attack.

    `change_rows` changes what attackers send; the other methods of an attack can be overridden as well, and call those
    of `self.wrapped`.
    """

    inner: Annotated[dict[str, Any], 'attack that it wraps; suites name it in a chain, as in "on-off + min-max"'] = (
        field(default_factory=lambda: {"name": DEFAULT, "parameters": {}})
    )

    def __post_init__(self) -> None:
        parameters = {**self.inner.get("parameters", {}), "share": self.share}
        self.wrapped: Attack = registry.get(Kind.ATTACK, self.inner.get("name", "")).create(**parameters)

    def change_rows(self, known: Known, participants: Indices, rows: Matrix) -> Matrix:
        """Return the rows that these attackers send in place of those of the wrapped attack, which stay as they are.

        It must depend on its arguments alone, since simulations of the wrapped attack call it as well.
        """
        return rows

    @property
    def needed_knowledge(self) -> tuple[str, ...]:
        """Knowledge that it and the wrapped attack need."""
        return tuple(dict.fromkeys((*self.knows, *self.wrapped.needed_knowledge)))

    @property
    def simulations_per_round(self) -> int:
        """Aggregates that the wrapped attack simulates in a round."""
        return self.wrapped.simulations_per_round

    @property
    def memories(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Its own memory and those of the wrapped attack."""
        inner = {f"{INNER}-{owner}": memory for owner, memory in self.wrapped.memories.items()}
        return {"attack": self.memory, **inner}

    @memories.setter
    def memories(self, memories: Mapping[str, dict[str, npt.NDArray[Any]]]) -> None:
        self.memory = memories["attack"]
        self.wrapped.memories = {owner: memories[f"{INNER}-{owner}"] for owner in self.wrapped.memories}

    def overrides(self, hook: str) -> bool:
        """Return whether this attack or the wrapped one has a hook of its own."""
        own = getattr(type(self), hook) is not getattr(AttackWrapper, hook)
        return own or hook == "poison_updates" or self.wrapped.overrides(hook)

    def validate(self, task: Task) -> None:
        """Raise a `ParameterError` for parameters that cannot work with a task."""
        self.wrapped.validate(task)

    def begin(self, setting: AttackSetting) -> None:
        """Prepare for the first round."""
        super().begin(setting)
        self.wrapped.begin(setting)

    def declared_examples(self, held: Indices) -> Indices:
        """Return the numbers of examples that attackers declare."""
        return self.wrapped.declared_examples(held)

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        """Return the examples that one attacker trains on in a round."""
        return self.wrapped.poison_data(examples, task, round, rng)

    def train(self, local: LocalTraining) -> Vector:
        """Return the update of one attacker's local training."""
        return self.wrapped.train(local)

    def poison_updates(self, known: Known) -> Matrix:
        """Return the rows of the wrapped attack, changed by `change_rows`."""

        def change(participants: Indices, rows: Matrix) -> Matrix:
            return self.change_rows(known, participants, rows)

        parts = known.for_wrapped(self.wrapped.needed_knowledge, change)
        return np.concatenate([change(part.participants, self.wrapped.poison_updates(part)) for part in parts])

    def goal(self, test: Examples, task: Task) -> Goal | None:
        """Return the goal of the wrapped attack."""
        return self.wrapped.goal(test, task)

    def flags(self) -> list[str]:
        """Return the warnings of the wrapped attack."""
        return self.wrapped.flags()


def parse(text: str) -> tuple[Entry, ...]:
    """Return the attacks of a chain, wrappers first, or raise an error that says why it cannot be one."""
    entries = [registry.get(Kind.ATTACK, name.strip()) for name in text.split("+")]
    for entry in entries[:-1]:
        if not _is_wrapper(entry):
            raise ParameterError(f'"{text}": {entry} wraps no other attack, so that it must stand last')
    if _is_wrapper(entries[-1]):
        entries.append(registry.get(Kind.ATTACK, DEFAULT))
    if twice := sorted({entry.name for entry in entries if entries.count(entry) > 1}):
        raise ParameterError(f'"{text}" names {", ".join(twice)} twice')
    return tuple(entries)


def _is_wrapper(entry: Entry) -> bool:
    return issubclass(entry.target, AttackWrapper)


def configure(
    entries: Sequence[Entry], given: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the configuration of a chain, each attack inside the one before; `defaults` apply by name."""
    tables = [dict(given)] if len(entries) == 1 else _parameters_by_attack(entries, given)
    configuration: dict[str, Any] = {}
    for entry, own in reversed(list(zip(entries, tables, strict=True))):
        inside = {INNER: configuration} if configuration else {}
        parameters = entry.check({**(defaults or {}).get(entry.name, {}), **own, **inside})
        if entry is not entries[0]:
            # Attackers are those of the whole chain.
            del parameters["share"]
        configuration = {"name": entry.name, "parameters": parameters}
    return configuration


def _parameters_by_attack(entries: Sequence[Entry], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    label = f'attack "{" + ".join(entry.name for entry in entries)}"'
    known: dict[str, Parameter] = {each.name: each for entry in reversed(entries) for each in entry.parameters}
    del known[INNER]
    tables = parameters_by_part(label, entries, tuple(known.values()), given)
    for entry, own in zip(entries, tables, strict=True):
        if INNER in own:
            raise ParameterError(f"{label}: the chain itself names the attack inside {entry.name}; leave out {INNER}")
        if entry is not entries[0] and "share" in own and "share" not in given:
            raise ParameterError(f"{label}: share is that of the whole chain; set it outside the table of {entry.name}")
    return tables
