"""A cell: one run of a measure, with everything that decides its result."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fflbench import parameters, registry
from fflbench.data.sources import DataSet
from fflbench.errors import ParameterError, plugin_code
from fflbench.federation import Deviation, chain
from fflbench.federation.chain import Chain
from fflbench.measures import Measure
from fflbench.records.parts import parts_of
from fflbench.records.record import Record, identify
from fflbench.records.validation import DEVIATION
from fflbench.registry import Entry, Kind
from fflbench.tasks import Task


@dataclass(frozen=True)
class Cell:
    """A task, a defense, a measure, a seed and, where the measure runs one, an attack."""

    configuration: Mapping[str, Any]
    """Everything that decides its result."""
    labels: Mapping[str, str]
    """Labels of its parts in the suite."""
    sweep: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By kind, the parameter that the suite sweeps over, its value here, and the label that all values share."""
    shared_by: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Labels of other defenses that agree in all that the measure depends on, with the sweep of each, if any."""

    @classmethod
    def of(cls, record: Record) -> "Cell":
        """Return the cell that a record is of."""
        return cls(record.configuration, record.labels, record.sweep, record.shared_by)

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
    def entries(self) -> dict[str, Entry]:
        """All its parts in the registry, by the keys of their results versions."""
        return {part.key: registry.get(part.kind, part.name) for part in parts_of(self.configuration)}

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
    def defense(self) -> Chain:
        """Its defense, or those parts of it that the measure depends on."""
        return chain.create(self.configuration["defense"])

    @property
    def deviation(self) -> Deviation | None:
        """How participants depart from the transport's protocol, if in any way."""
        chosen = self.configuration.get(DEVIATION)
        return create_deviation(chosen["name"], chosen["parameters"])[1] if chosen else None

    @property
    def data_set(self) -> DataSet | None:
        """The data set that it needs, if any."""
        task: Task = self.create(Kind.TASK)
        return task.data_set if self.measure.needs_data or task.model_from_data else None

    def create(self, kind: Kind) -> Any:
        """Its task, measure or attack with all parameters set."""
        chosen = self.configuration[kind]
        return registry.get(kind, chosen["name"]).create(**chosen["parameters"])

    def created(self) -> dict[str, Any]:
        """All that its measure runs on, with parameters set."""
        task = self.create(Kind.TASK)
        return {"task": task, "attack": self.attack, "defense": self.defense, "deviation": self.deviation}


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
    with plugin_code(owner):
        checked = parameters.check(owner, parameters.of_dataclass(declared), given)
        return checked, declared(**checked)
