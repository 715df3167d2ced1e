"""Contract of engines, and the data that they train on."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from torch import Tensor

from fflbench import registry
from fflbench.randomness import stream
from fflbench.registry import Kind
from fflbench.types import Indices, Matrix, Vector

if TYPE_CHECKING:
    from fflbench.engines.flat_model import FlatModel
    from fflbench.tasks import Task


class Engine(Protocol):
    """Interface of training engines."""

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Return the participants' updates, one row per participant."""


class LocalData:
    """Examples by participant: one pool of inputs and labels, and the indices of each participant's own."""

    def __init__(self, x: Tensor, y: Tensor, indices: Sequence[Indices], seed: int, task: "Task") -> None:
        self.x, self.y, self.indices = x, y, indices
        self.seed, self.task = seed, task

    def example_order(self, participant: int, round: int) -> Indices:
        """Return the order in which a participant visits its examples, one row per epoch.

        It depends on nothing but seed, participant and round, so that all defenses are compared on the same batches.
        """
        rng = stream(self.seed, "batches", participant, round)
        own = self.indices[participant]
        return np.stack([rng.permutation(own) for _ in range(epochs_begun(self.task, len(own)))])

    def torch_seed(self, participant: int, round: int) -> int:
        """Return the seed of the model's own randomness, such as dropout."""
        return int(stream(self.seed, "training", participant, round).integers(2**63))


def epochs_begun(task: "Task", examples: int) -> int:
    """Return the number of epochs that a participant begins in a round, the last one perhaps cut short."""
    if task.local_steps is None:
        return task.local_epochs
    return math.ceil(task.local_steps / math.ceil(examples / task.batch_size))


def create_engine(model: "FlatModel", data: LocalData) -> Engine:
    """Return the engine that the task names."""
    created: Engine = registry.get(Kind.ENGINE, data.task.engine).target(model, data)
    return created
