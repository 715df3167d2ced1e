"""Contract of poisoning attacks, and the knowledge that attackers have."""

import copy
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from fflbench.arrays.columns import Columns, update_tensors
from fflbench.data import Examples
from fflbench.errors import ParameterError
from fflbench.federation.simulation import RoundSimulation, SimulateAll
from fflbench.federation.views import read_only
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Labels, Matrix, Vector

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fflbench.engines.loop import Loop


MOST_DECLARED = 10**12
"""Most examples that a participant may declare; sums of them are exact in double precision."""


@dataclass(frozen=True)
class Goal:
    """Inputs that an attack wants misclassified, and the labels that it wants for them."""

    examples: Examples
    """The inputs, with their true labels."""
    labels: Labels
    """The label that the attack wants for each input."""


def checked_goal(goal: Any, test: Examples, task: Task) -> Goal | None:
    """Return a goal in the types that models are evaluated on, or raise an error where it cannot be scored."""
    if goal is None:
        return None
    if not (isinstance(goal, Goal) and _like(goal.examples, test, task) and _are_labels(goal.labels, task)) or not (
        len(goal.examples) == len(goal.labels) > 0
    ):
        raise ParameterError(
            "goal must return a Goal with at least one example, of the shape of those that it receives, and one label "
            f"from 0 to {len(task.classes) - 1} for each"
        )
    examples = Examples(np.array(goal.examples.x, test.x.dtype), np.array(goal.examples.y, test.y.dtype))
    return Goal(examples, np.array(goal.labels, test.y.dtype))


def check_poisoned(examples: Any, own: Examples, task: Task) -> None:
    """Raise an error for poisoned examples that cannot replace an attacker's own."""
    if not (_like(examples, own, task) and len(examples) == len(own)):
        raise ParameterError(
            "poison_data must return Examples, as many as it receives and of the same shape, with labels from 0 to "
            f"{len(task.classes) - 1}"
        )


def check_declared(declared: Any, held: Indices) -> None:
    """Raise an error for declared numbers of examples that no server would accept."""
    are_counts = isinstance(declared, np.ndarray) and declared.dtype.kind in "iu" and declared.shape == held.shape
    if not (are_counts and ((declared >= 1) & (declared <= MOST_DECLARED)).all()):
        raise ParameterError(
            f"declared_examples must return an array of {len(held)} whole numbers from 1 to {MOST_DECLARED:,}"
        )


def _like(examples: Any, others: Examples, task: Task) -> bool:
    """Return whether these are examples of a task, with inputs of the shape of others."""
    if not isinstance(examples, Examples) or not _are_labels(examples.y, task):
        return False
    return np.shape(examples.x) == (len(examples), *others.x.shape[1:])


def _are_labels(labels: Any, task: Task) -> bool:
    """Return whether these are numbers of a task's classes."""
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        return False
    return bool(((values >= 0) & (values < len(task.classes))).all())


@dataclass(frozen=True)
class AttackSetting:
    """Setting of an attack, known before the first round."""

    task: Task
    """The task, since how participants train is public."""
    attackers: Indices
    """The participants that attack."""
    columns: Columns
    """Positions of the model's tensors in an update."""
    rng: np.random.Generator
    """Generator for `begin` alone; those of a round are `known.rng` and `local.rng`, which a resumed cell repeats."""


class LocalTraining:
    """Local training of one attacker in a round, for attacks that change it."""

    def __init__(
        self, loop: "Loop", *, round: int, participant: int, weights: Vector, task: Task, rng: np.random.Generator
    ) -> None:
        self.round = round
        """Number of the round, from 0."""
        self.participant = participant
        """The attacker."""
        self.task = task
        """The task, whose parameters training uses."""
        self.rng = rng
        """Random numbers of this attacker in this round."""
        self.weights = read_only(weights)
        """The global model."""
        # Torch warns of arrays that are read-only.
        self._loop, self._weights = loop, weights

    @property
    def columns(self) -> Columns:
        """Columns of an update."""
        return self._loop.model.columns

    @property
    def examples(self) -> Examples:
        """Return the examples that this attacker trains on, as `poison_data` left them."""
        data = self._loop.data
        own = data.indices[self.participant]
        return Examples(data.x[own].cpu().numpy(), data.y[own].cpu().numpy())

    @functools.cached_property
    def model(self) -> "nn.Module":
        """Model of the attacker's own with the global weights, for training by code of the attack; see `change`."""
        self._loop.model.load(self._weights)
        # A copy: whatever the attack does to it (freeze layers, replace tensors) must not reach other participants.
        return copy.deepcopy(self._loop.model.model).train()

    def change(self) -> Vector:
        """Return the update that `model` amounts to: its weights minus the global ones."""
        weights = [tensor.detach().cpu().numpy().ravel() for _, tensor in update_tensors(self.model)]
        update: Vector = np.concatenate(weights) - self.weights
        return update

    def train(
        self,
        *,
        edit_gradient: "Callable[[Tensor], object] | None" = None,
        edit_weights: "Callable[[Tensor], object] | None" = None,
    ) -> Vector:
        """Train as an honest participant does, and return the update.

        `edit_gradient` may change the gradient of all parameters before each step, `edit_weights` all parameters after
        it; both receive one vector and change it in place.
        """
        return self._loop.train_one(self._weights, self.participant, self.round, edit_gradient, edit_weights)


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
        """Number of the round, from 0."""
        self.weights = weights
        """The global model, which everybody receives."""
        self.participants = participants
        """The attackers whose updates are asked for."""
        self.selected = selected
        """Number of participants in this round, attackers included."""
        self.updates = updates
        """The attackers' updates after local training, one row per attacker; may be overwritten."""
        self.columns = columns
        """Positions of the model's tensors in an update."""
        self.task = task
        """The task, since how participants train is public."""
        self.rng = rng
        """Random numbers of this attack in this round."""
        self._declared = declared
        self._sent_as: Callable[[Indices, Matrix], Matrix] = lambda participants, rows: rows

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
        simulate: RoundSimulation = self._declared_knowledge("defense")
        if rows.shape != self.updates.shape:
            raise ParameterError(f"known.simulate takes rows of shape {self.updates.shape}, not {rows.shape}")
        if honest is None:
            self._declared_knowledge("honest updates")
        elif honest.shape != (expected := (self.selected - len(self.participants), rows.shape[1])):
            raise ParameterError(f"known.simulate takes an estimate of shape {expected}, not {honest.shape}")
        return simulate(self.participants, self._sent_as(self.participants, rows), honest)

    def loss(self, weights: Vector) -> float:
        """Return the mean loss of a model with these weights on the examples of these attackers, before any poisoning.

        For attacks that declare "own data". NaN or infinity is the loss of a model that diverged.
        """
        loss: Callable[[Vector, Indices], float] = self._declared_knowledge("own data")
        return loss(weights, self.participants)

    def for_wrapped(self, knows: Collection[str], sent_as: Callable[[Indices, Matrix], Matrix]) -> "Iterator[Known]":
        """Yield the knowledge of an attack that another wraps: as it declares it, for all attackers or for each alone.

        `sent_as` returns the rows that attackers send in place of those of the wrapped attack, which simulates these.
        """
        together = "attackers' updates" in knows or len(self.participants) == 1
        groups = [slice(None)] if together else [slice(place, place + 1) for place in range(len(self.participants))]
        for group in groups:
            part = copy.copy(self)
            part.participants, part.updates = self.participants[group], self.updates[group].copy()
            part._declared = {what: value for what, value in self._declared.items() if what in knows}
            part._sent_as = lambda participants, rows: self._sent_as(participants, sent_as(participants, rows))
            yield part

    def _declared_knowledge(self, what: str) -> Any:
        if what not in self._declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self._declared[what]


@dataclass(kw_only=True)
class Attack:
    """Participants who attack; every method may be overridden, and none must be.

    State that lasts from round to round is kept in `memory`, as arrays: it is saved and restored with the cell.
    Other attributes are lost when a cell is stopped and resumed.
    """

    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that it declares to need; set by the decorator that registers it."""

    sends_finite_rows: ClassVar[bool] = True
    """Whether attackers send neither NaN nor infinity, which conformance checks require unless it is False."""

    share: Annotated[float, Ge(0), Le(1), "part of the participants that attack, the same ones in every round"] = 0.2

    memory: dict[str, npt.NDArray[Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """State that lasts from round to round, as arrays by name: saved and restored with the cell."""

    @property
    def needed_knowledge(self) -> tuple[str, ...]:
        """Knowledge that it needs with its parameters: what its class declares, and that of an attack inside it."""
        return self.knows

    @property
    def memories(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """All that is saved and restored with the cell: `memory`, and that of an attack inside it."""
        return {"attack": self.memory}

    @memories.setter
    def memories(self, memories: Mapping[str, dict[str, npt.NDArray[Any]]]) -> None:
        self.memory = memories["attack"]

    @property
    def simulations_per_round(self) -> int:
        """Aggregates that it simulates in a round, at most: for estimates of the time that a cell takes."""
        return 0

    @property
    def targeted(self) -> bool:
        """Whether it has a goal, so that its success rate says more than the model's accuracy."""
        return self.overrides("goal")

    def overrides(self, hook: str) -> bool:
        """Return whether this attack has a hook of its own."""
        return getattr(type(self), hook) is not getattr(Attack, hook)

    def count(self, participants: int) -> int:
        """Return the number of attackers among so many participants."""
        return math.floor(self.share * participants + 0.5)

    def validate(self, task: Task) -> None:
        """Raise a `ParameterError` for parameters that cannot work with a task."""

    def begin(self, setting: AttackSetting) -> None:
        """Prepare for the first round: keep the setting, with an empty `memory`."""
        self.setting, self.memory = setting, {}

    def declared_examples(self, held: Indices) -> Indices:
        """Return the numbers of examples that attackers declare, by which servers weight updates.

        `held` are those that they hold, in the order of `setting.attackers`. It is called once, after `begin`.
        """
        return held

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        """Return the examples that one attacker trains on in a round, as many as its own, which are read-only."""
        return examples

    def train(self, local: LocalTraining) -> Vector:
        """Return the update of one attacker's local training."""
        return local.train()

    def poison_updates(self, known: Known) -> Matrix:
        """Return the rows that attackers send instead of `known.updates`."""
        return known.updates

    def goal(self, test: Examples, task: Task) -> Goal | None:
        """Return the inputs that it wants misclassified and the labels that it wants, or None without such a goal.

        It depends on parameters, test set and task alone: it is called without `begin`, also where nobody attacks.
        """
        return None

    def flags(self) -> list[str]:
        """Return warnings for readers of the results, after the last round, about this attack in this setting."""
        return []


def poison_rows(
    attack: Attack,
    updates: Matrix,
    *,
    selected: Indices,
    attackers: Indices,
    round: int,
    weights: Vector,
    columns: Columns,
    task: Task,
    seed: int,
    simulate: SimulateAll,
    loss: Callable[[Vector, Indices], float],
) -> RoundSimulation:
    """Replace the attackers' rows among those of the selected participants by poisoned ones.

    All at once for an attack that declares "attackers' updates", else one attacker at a time. `simulate` returns the
    aggregate of a matrix with one row for each of the selected, or None where the server would keep its model; `loss`
    that of a model on the own examples of some attackers. The result counts the simulations.
    """
    hostile = np.isin(selected, attackers)
    rows, knows = np.flatnonzero(hostile), attack.needed_knowledge
    honest = updates[~hostile] if {"honest updates", "defense"} & set(knows) else updates[:0]
    groups = [rows] if "attackers' updates" in knows else [rows[[place]] for place in range(len(rows))]
    simulation = RoundSimulation(simulate, selected, hostile, honest, updates)
    given = {"own data": loss, "honest updates": read_only(honest), "defense": simulation}
    for group in filter(len, groups):
        known = Known(
            round=round,
            weights=read_only(weights),
            participants=selected[group],
            selected=len(selected),
            updates=updates[group],
            columns=columns,
            task=task,
            rng=stream(seed, "attack", round, *map(int, selected[group])),
            declared={what: value for what, value in given.items() if what in knows},
        )
        poisoned = attack.poison_updates(known)
        if getattr(poisoned, "shape", None) != known.updates.shape:
            raise ParameterError("poison_updates must return a matrix of the shape of known.updates")
        updates[group] = poisoned
    return simulation
