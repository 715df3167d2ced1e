"""Base class of poisoning attacks, and the knowledge that attackers have in a round."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from fflbench.data import Examples
from fflbench.errors import ParameterError
from fflbench.federation.columns import Columns
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector


class Simulate(Protocol):
    """Function that computes the aggregate if attackers sent given rows, on a copy of the defense."""

    def __call__(self, rows: Matrix, honest: Matrix | None) -> Vector | None:
        """Return the change of the model, or None where the server would keep it."""


class Known:
    """Attackers' knowledge in a round: their own updates, and whatever their attack declares that it must know.

    An attack that does not declare "attackers' updates" is called once per attacker, with one row.
    """

    def __init__(
        self,
        *,
        round: int,
        weights: Vector,
        participants: Indices,
        selected: int,
        updates: Matrix,
        columns: Columns,
        task: Task,
        rng: np.random.Generator,
        declared: Mapping[str, Any],
    ) -> None:
        self.round = round
        self.weights = weights
        """The global model, which everybody receives."""
        self.participants = participants
        """The attackers whose updates are asked for."""
        self.selected = selected
        """Number of participants in this round, attackers included."""
        self.updates = updates
        """The attackers' updates after local training, one row per attacker; may be overwritten."""
        self.columns = columns
        self.task = task
        self.rng = rng
        self._declared = declared

    @property
    def honest(self) -> Matrix:
        """Return the honest participants' updates of this round."""
        updates: Matrix = self._declared_knowledge("honest updates")
        return updates

    def simulate(self, rows: Matrix, honest: Matrix | None = None) -> Vector | None:
        """Return the aggregate if these attackers sent `rows`, or None where the server would keep its model.

        For attacks that declare "defense". The core computes it on a copy of the defense, with the memory of this round
        and random choices of its own (pairing, masks, the rule's), the same in all calls of a round: the attack can
        neither change the defense nor learn its keys. Honest updates are the true ones for attacks that declare "honest
        updates"; others pass an estimate, one row for each of the `selected - len(participants)` others. Attackers
        who do not know each other's updates are assumed to send the mean of the honest ones.
        """
        simulate: Simulate = self._declared_knowledge("defense")
        if rows.shape != self.updates.shape:
            raise ParameterError(f"known.simulate takes rows of shape {self.updates.shape}, not {rows.shape}")
        if honest is None:
            self._declared_knowledge("honest updates")
        elif honest.shape != (expected := (self.selected - len(self.participants), rows.shape[1])):
            raise ParameterError(f"known.simulate takes an estimate of shape {expected}, not {honest.shape}")
        return simulate(rows, honest)

    def _declared_knowledge(self, what: str) -> Any:
        if what not in self._declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self._declared[what]


@dataclass(kw_only=True)
class Attack:
    """Participants who send poisoned updates; override one of the two methods or both.

    State that lasts from round to round is kept in `memory`, as arrays: it is saved and restored with the cell.
    Other attributes are lost when a cell is stopped and resumed.
    """

    targeted: ClassVar[bool] = False
    """Whether it targets one class, so that attack success rate says more than accuracy."""
    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that it declares to need; set by the decorator that registers it."""

    share: Annotated[float, Ge(0), Le(1), "part of the participants that attack, the same ones in every round"] = 0.2

    memory: dict[str, npt.NDArray[Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def count(self, participants: int) -> int:
        """Return the number of attackers among so many participants."""
        return math.floor(self.share * participants + 0.5)

    def poison_data(self, examples: Examples, task: Task, rng: np.random.Generator) -> Examples:
        """Return the examples that one attacker trains on, as many as its own; changed values must be in new arrays."""
        return examples

    def poison_updates(self, known: Known) -> Matrix:
        """Return the rows that attackers send instead of `known.updates`."""
        return known.updates
