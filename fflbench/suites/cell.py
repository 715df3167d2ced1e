"""Cell of a suite: one run of a measure, with all that determines its result."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fflbench import plugin_parameters, registry
from fflbench.data.dataset_files import DataSet
from fflbench.errors import ParameterError, name_plugin_in_errors
from fflbench.federation import Deviation, chain
from fflbench.federation.chain import Chain
from fflbench.measures import Measure
from fflbench.records.cell_configuration import GOALS, registered_parts
from fflbench.records.record import Record, cell_id
from fflbench.records.validation import DEVIATION
from fflbench.registry import Entry, Kind
from fflbench.tasks import Task


@dataclass(frozen=True)
class Cell:
    """Task, defense, measure, seed and, where the measure runs one, attack."""

    configuration: Mapping[str, Any]
    """Everything that determines its result."""
    labels: Mapping[str, str]
    """Labels of its parts in the suite."""
    sweep: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameter that the suite sweeps over, its value here, and the label that all values share, by kind."""
    shared_by: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Labels of other defenses that agree in all that the measure depends on, with the sweep of each, if any."""

    @classmethod
    def of(cls, record: Record) -> "Cell":
        """Return the cell of a record."""
        return cls(record.configuration, record.labels, record.sweep, record.shared_by)

    @functools.cached_property
    def id(self) -> str:
        """Hash of the whole configuration, parameters included."""
        return cell_id(self.configuration)

    @property
    def seed(self) -> int:
        """Seed of the cell."""
        seed: int = self.configuration["seed"]
        return seed

    def __str__(self) -> str:
        return f"{' · '.join(self.labels.values())} · seed {self.seed}"

    @property
    def entries(self) -> dict[str, Entry]:
        """All its parts in the registry, by the keys of their results versions."""
        return {part.key: registry.get(part.kind, part.name) for part in registered_parts(self.configuration)}

    @property
    def measure(self) -> Measure:
        """Its measure, with all parameters set."""
        measure: Measure = self.create(Kind.MEASURE)
        return measure

    @property
    def attack(self) -> Any:
        """Attack that its measure runs; None where it runs none."""
        kind = self.measure.attacked
        return None if kind is None else self.create(kind)

    @property
    def defense(self) -> Chain:
        """Its defense, or those parts of it that the measure depends on."""
        return chain.create(self.configuration["defense"])

    @property
    def deviation(self) -> Deviation | None:
        """Deviation of participants from the transport's protocol, if any."""
        chosen = self.configuration.get(DEVIATION)
        return create_deviation(chosen["name"], chosen["parameters"])[1] if chosen else None

    @property
    def goals(self) -> list[Any]:
        """Attacks for whose goals the model is scored, in a cell without attackers."""
        return [
            registry.get(Kind.ATTACK, goal["name"]).create(**goal["parameters"])
            for goal in self.configuration.get(GOALS, ())
        ]

    @property
    def data_set(self) -> DataSet | None:
        """Data set that it needs, if any."""
        task: Task = self.create(Kind.TASK)
        return task.data_set if self.measure.needs_data or task.model_from_data else None

    def create(self, kind: Kind) -> Any:
        """Return its task, measure or attack with all parameters set."""
        chosen = self.configuration[kind]
        return registry.get(kind, chosen["name"]).create(**chosen["parameters"])

    def created(self) -> dict[str, Any]:
        """Return the task, attack, defense, deviation and goals that its measure runs on."""
        task, goals = self.create(Kind.TASK), tuple(self.goals)
        chosen = {"attack": self.attack, "defense": self.defense, "deviation": self.deviation}
        return {"task": task, "goals": goals, **chosen}


def deviation_class(transport: str) -> type[Deviation]:
    """Return the class of a transport's deviations."""
    entry = registry.get(Kind.TRANSPORT, transport)
    declared: type[Deviation] | None = entry.target.deviation
    if declared is None:
        raise ParameterError(f"{entry} knows no deviations from its protocol")
    return declared


def create_deviation(transport: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], Deviation]:
    """Return all parameters of a deviation, defaults included, and the deviation itself."""
    declared, owner = deviation_class(transport), f'deviation "{transport}"'
    with name_plugin_in_errors(owner):
        checked = plugin_parameters.check_parameters(owner, plugin_parameters.parameters_of_dataclass(declared), given)
        return checked, declared(**checked)
