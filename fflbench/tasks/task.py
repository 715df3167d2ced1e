"""Base class of tasks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le, Lt

from fflbench.data.examples import Data, Examples
from fflbench.data.partitions import Scheme, partition
from fflbench.data.prepared import is_here, load
from fflbench.data.sources import DataSet
from fflbench.randomness import stream
from fflbench.types import Indices, Labels

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Learning problem: override `model`, name the data set or override `data`, and change defaults as needed.

    Every field can be set from a suite. A fresh optimiser starts each round, and the last, smaller batch counts too.
    """

    data_set: ClassVar[DataSet | None] = None
    """Data set of the task; a task with arrays of its own overrides `data` instead."""
    classes: ClassVar[tuple[str, ...]]
    """Names of the classes, in the order of their numbers."""
    model_from_data: ClassVar[bool] = False
    """Whether the model's shape depends on the data, as on a vocabulary."""
    cpus: ClassVar[float] = 1.0
    """Processors that a cell requests on a cluster."""
    gpus: ClassVar[float] = 1.0
    """GPUs that a cell requests on a cluster if it trains on one; small tasks share."""

    participants: Annotated[int, Ge(1), Le(10**6), "participants that hold training data"] = 20
    per_round: Annotated[int, Ge(1), Le(10**6), "participants selected each round"] = 10
    rounds: Annotated[int, Ge(1), Le(10**6), "rounds of training"] = 30
    local_epochs: Annotated[int, Ge(1), Le(10**6), "passes of a participant over its own data in each round"] = 1
    batch_size: Annotated[int, Ge(1), Le(10**9), "examples in a batch"] = 32
    optimizer: Annotated[Literal["sgd", "adam"], "what participants train with"] = "sgd"
    learning_rate: Annotated[float, Gt(0), "the optimiser's step"] = 0.01
    momentum: Annotated[float, Ge(0), Lt(1), "of SGD; Adam has none to set"] = 0.9
    loss: Annotated[
        Literal["cross-entropy", "binary-cross-entropy"], "one output per class, or one logit for the second of two"
    ] = "cross-entropy"
    decision_threshold: Annotated[
        float, Gt(0), Lt(1), "probability from which a binary task predicts the second class"
    ] = 0.5
    partition: Annotated[Scheme, "how training examples are divided among participants"] = "iid"
    dirichlet_alpha: Annotated[float, Gt(0), Le(1e6), "evenness of a Dirichlet partition; small is uneven"] = 0.5
    shards: Annotated[int, Ge(1), Le(10**6), "shards each participant is dealt in a partition by shards"] = 2
    engine: Annotated[Literal["loop", "stacked"], "trains participants one by one, or all at once (small models)"] = (
        "loop"
    )
    average_last: Annotated[
        int, Ge(1), Le(10**6), "final metrics are those of the mean of so many last global models"
    ] = 1
    noise_sigma: Annotated[float, Gt(0), "deviation of the noise that the gaussian-noise attack adds"] = 0.5
    source: Annotated[int, Ge(0), "class that targeted attacks aim at"] = 0
    target: Annotated[int, Ge(0), "class that targeted attacks want instead"] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not len(getattr(cls, "classes", ())) > 1:
            raise TypeError(f'{cls.__name__} must name its classes, as in: classes = ("no", "yes")')

    def __post_init__(self) -> None:
        if self.per_round > self.participants:
            raise ValueError(f"per_round = {self.per_round} is more than participants = {self.participants}")
        if self.loss == "binary-cross-entropy" and len(self.classes) != 2:
            raise ValueError(f'loss = "binary-cross-entropy" is for two classes, not {len(self.classes)}')
        if self.source == self.target or max(self.source, self.target) >= len(self.classes):
            count = len(self.classes)
            raise ValueError(
                f"source = {self.source} and target = {self.target} must be two of {count} classes, from 0"
            )

    def data(self) -> Data:
        """Return the training and test part."""
        if self.data_set is None:
            raise NotImplementedError(f"{type(self).__name__} has neither data() nor a data_set")
        return load(self.data_set)

    @abstractmethod
    def model(self) -> "nn.Module":
        """Return a new model with random weights; import torch here, not at the top, so that listing tasks is quick."""

    def trait(self, examples: Examples) -> npt.NDArray[np.bool_]:
        """Return which examples have the property that property inference targets; by default, the source class."""
        having: npt.NDArray[np.bool_] = examples.y == self.source
        return having

    def divide(self, y: Labels, seed: int) -> list[Indices]:
        """Return the training examples of each participant, which the seed alone determines."""
        rng = stream(seed, "partition")
        return partition(self.partition, y, self.participants, rng, alpha=self.dirichlet_alpha, shards=self.shards)

    @property
    def countable(self) -> bool:
        """Whether the model can be built without a download."""
        return not (self.model_from_data and self.data_set and not is_here(self.data_set))

    def parameter_count(self) -> int | None:
        """Return the number of the model's parameters, counted without storing it; None if that needs absent data."""
        if not self.countable:
            return None
        import torch

        with torch.device("meta"):
            return sum(parameter.numel() for parameter in self.model().parameters())
