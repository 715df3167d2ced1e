"""What every poisoning attack has, and what it may look at."""

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
    """Computes the aggregate of the round if attackers sent given rows, on a copy of the defense."""

    def __call__(self, rows: Matrix, honest: Matrix | None) -> Vector | None:
        """Return the change of the model, or None where the server would keep it."""


class Known:
    """What attackers know in a round: their own affairs, and what their attack declares it must know besides.

    An attack that does not declare "attackers' updates" is asked once for each attacker, with one row.
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
        """The attackers that are asked."""
        self.selected = selected
        """Number of participants in this round, attackers included."""
        self.updates = updates
        """What their training gave, a row each; theirs to change."""
        self.columns = columns
        self.task = task
        self.rng = rng
        self._declared = declared

    @property
    def honest(self) -> Matrix:
        """The honest participants' updates of this round."""
        updates: Matrix = self._tell("honest updates")
        return updates

    def simulate(self, rows: Matrix, honest: Matrix | None = None) -> Vector | None:
        """Return the aggregate if these attackers sent `rows`, or None where the server would keep its model.

        For attacks that declare "defense". The core computes it on a copy of the defense, with the memory of this round
        and random choices of its own (pairing, masks, the rule's), the same in all calls of a round: the attack can
        neither change the defense nor learn its keys. Honest updates are the true ones for attacks that declare "honest
        updates"; others hand in an estimate, one row for each of the `selected - len(participants)` others. Attackers
        who do not know each other's updates are taken to send the mean of the honest ones.
        """
        simulate: Simulate = self._tell("defense")
        if rows.shape != self.updates.shape:
            raise ParameterError(f"known.simulate takes rows of shape {self.updates.shape}, not {rows.shape}")
        if honest is None:
            self._tell("honest updates")
        elif honest.shape != (expected := (self.selected - len(self.participants), rows.shape[1])):
            raise ParameterError(f"known.simulate takes an estimate of shape {expected}, not {honest.shape}")
        return simulate(rows, honest)

    def _tell(self, what: str) -> Any:
        if what not in self._declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self._declared[what]


@dataclass(kw_only=True)
class Attack:
    """Participants who send poisoned updates; override one of the two methods or both.

    State that lasts from round to round is kept in `memory`, as arrays: it is saved and restored with the cell.
    Attributes of its own are lost where a cell stops and goes on.
    """

    targeted: ClassVar[bool] = False
    """Whether it aims at one class, so that attack success tells more than accuracy."""
    knows: ClassVar[tuple[str, ...]] = ()
    """What it declares it must know; set by the decorator that registers it."""

    share: Annotated[float, Ge(0), Le(1), "part of the participants that attack, the same ones in every round"] = 0.2

    memory: dict[str, npt.NDArray[Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def count(self, participants: int) -> int:
        """How many of so many participants attack."""
        return math.floor(self.share * participants + 0.5)

    def poison_data(self, examples: Examples, task: Task, rng: np.random.Generator) -> Examples:
        """What one attacker trains on, instead of its examples; as many as they were, what differs in new arrays."""
        return examples

    def poison_updates(self, known: Known) -> Matrix:
        """What attackers send instead of `known.updates`."""
        return known.updates
