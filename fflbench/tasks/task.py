"""Base class of tasks."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le, Lt

from fflbench.arrays.columns import Columns
from fflbench.data.cache import is_available, load
from fflbench.data.dataset_files import DataSet
from fflbench.data.examples import Data, Examples
from fflbench.data.partitions import Scheme, partition
from fflbench.errors import FflbenchError, ParameterError
from fflbench.plugin_parameters import AddedLater
from fflbench.randomness import stream
from fflbench.types import Indices, Labels

if TYPE_CHECKING:
    from torch import nn

VALIDATION_SHARE = 0.1
"""Part of the training set that is held out for validation; smaller than the test set of every built-in task."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Learning problem: override `model`, name the data set or override `data`, and change defaults as needed.

    Every field can be set from a suite. A fresh optimiser starts each round, and the last, smaller batch counts too.
    """

    data_set: ClassVar[DataSet | None] = None
    """Data set of the task; a task with arrays of its own overrides `data` instead."""
    classes: ClassVar[tuple[str, ...]]
    """Names of the classes, in the order of their numbers."""
    attack_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Parameters that attacks have here unless a suite sets them, as in {"label-flipping": {"source": 7}}."""
    trait_class: ClassVar[int] = 0
    """Class whose presence property inference asks for, unless `trait` is overridden."""
    model_from_data: ClassVar[bool] = False
    """Whether the model's shape depends on the data, as on a vocabulary."""
    cpus: ClassVar[float] = 1.0
    """Processors that a cell requests on a cluster."""
    gpus: ClassVar[float] = 1.0
    """GPUs that a cell requests on a cluster if it trains on one; small tasks share."""

    participants: Annotated[int, Ge(1), Le(10**6), "participants that hold training data"] = 20
    per_round: Annotated[int, Ge(1), Le(10**6), "participants selected each round"] = 10
    rounds: Annotated[int, Ge(1), Le(10**6), "rounds of training"] = 30
    evaluate_every: Annotated[int, Ge(1), Le(10**6), "rounds from one evaluation to the next; the last always is"] = 1
    local_epochs: Annotated[int, Ge(1), Le(10**6), "passes of a participant over its own data in each round"] = 1
    local_steps: Annotated[
        Annotated[int, Ge(1), Le(10**6)] | None, "batches of a participant in each round, instead of whole epochs"
    ] = None
    batch_size: Annotated[int, Ge(1), Le(10**9), "examples in a batch"] = 32
    optimizer: Annotated[Literal["sgd", "adam"], "what participants train with"] = "sgd"
    learning_rate: Annotated[float, Gt(0), "the optimiser's step"] = 0.01
    momentum: Annotated[float, Ge(0), Lt(1), "of SGD; Adam has none to set"] = 0.9
    worker_momentum: Annotated[
        float, Ge(0), Lt(1), "weight of a participant's earlier updates in the one it sends (Karimireddy et al. 2021)"
    ] = 0.0
    proximal: Annotated[
        float, Ge(0), "weight of the pull of local training towards the global model (FedProx, Li et al. 2020)"
    ] = 0.0
    loss: Annotated[
        Literal["cross-entropy", "binary-cross-entropy"], "one output per class, or one logit for the second of two"
    ] = "cross-entropy"
    decision_threshold: Annotated[
        float, Gt(0), Lt(1), "probability from which a binary task predicts the second class"
    ] = 0.5
    examples: Annotated[
        Annotated[int, Ge(1), Le(10**9)] | None, "training examples of each participant; none divides all of them"
    ] = None
    root_examples: Annotated[
        int, Ge(0), Le(10**9), "training examples that the server holds, for rules that train on them"
    ] = 0
    partition: Annotated[Scheme, "how training examples are divided among participants"] = "iid"
    dirichlet_alpha: Annotated[float, Gt(0), Le(1e6), "evenness of a Dirichlet partition; small is uneven"] = 0.5
    shards: Annotated[int, Ge(1), Le(10**6), "shards each participant is dealt in a partition by shards"] = 2
    engine: Annotated[str, "training of participants: one by one, stacked or compiled (fflbench list engines)"] = "loop"
    average_last: Annotated[
        int, Ge(1), Le(10**6), "final metrics are those of the mean of so many last global models"
    ] = 1
    evaluate_on: Annotated[
        Literal["test", "validation"],
        AddedLater(),
        "what the global model is evaluated on: the test set, or training examples that nobody holds, to tune on",
    ] = "test"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not len(getattr(cls, "classes", ())) > 1:
            raise TypeError(f'{cls.__name__} must name its classes, as in: classes = ("no", "yes")')

    def __post_init__(self) -> None:
        if self.per_round > self.participants:
            raise ValueError(f"per_round = {self.per_round} is more than participants = {self.participants}")
        if self.loss == "binary-cross-entropy" and len(self.classes) != 2:
            raise ValueError(f'loss = "binary-cross-entropy" is for two classes, not {len(self.classes)}')
        if self.examples and self.partition == "shards" and self.examples % self.shards:
            raise ValueError(f"examples = {self.examples} must be a multiple of shards = {self.shards}")
        if self.examples and self.partition == "dirichlet":
            raise ValueError(
                'examples = … needs partition = "dirichlet-equal", "iid" or "shards": dirichlet sets sizes'
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
        """Return which examples have the property that property inference targets; by default, a class."""
        having: npt.NDArray[np.bool_] = examples.y == self.trait_class
        return having

    def divide(self, y: Labels, seed: int) -> list[Indices]:
        """Return the training examples of each participant, which the seed alone determines."""
        rng, root, held_out = stream(seed, "partition"), self.root_indices(y, seed), self.validation_indices(y, seed)
        rest = np.setdiff1d(np.arange(len(y)), np.union1d(root, held_out))
        parts = partition(
            self.partition,
            y[rest],
            self.participants,
            rng,
            alpha=self.dirichlet_alpha,
            shards=self.shards,
            examples=self.examples,
        )
        return [rest[part] for part in parts]

    def root_indices(self, y: Labels, seed: int) -> Indices:
        """Return the training examples that the server holds; no participant holds one of them."""
        if self.root_examples > len(y):
            raise ParameterError(f"root_examples = {self.root_examples} is more than the {len(y)} training examples")
        return np.sort(stream(seed, "root").choice(len(y), self.root_examples, replace=False))

    def validation_indices(self, y: Labels, seed: int) -> Indices:
        """Return the training examples that neither a participant nor the server holds; none without validation."""
        if self.evaluate_on == "test":
            return np.empty(0, np.int64)
        others = np.setdiff1d(np.arange(len(y)), self.root_indices(y, seed))
        count = min(math.ceil(VALIDATION_SHARE * len(y)), len(others))
        return np.sort(stream(seed, "validation").choice(others, count, replace=False))

    def evaluated_examples(self, data: Data, seed: int) -> Examples:
        """Return the examples that the global model is evaluated on."""
        if self.evaluate_on == "test":
            return data.test
        held_out = self.validation_indices(data.train.y, seed)
        return Examples(data.train.x[held_out], data.train.y[held_out])

    @property
    def can_build_model(self) -> bool:
        """Whether the model can be built without a download."""
        return not (self.model_from_data and self.data_set and not is_available(self.data_set))

    def parameter_count(self) -> int | None:
        """Return the number of the model's parameters, counted without storing it; None if that needs absent data."""
        if not self.can_build_model:
            return None
        return sum(parameter.numel() for parameter in self.model_without_weights().parameters())

    def columns(self) -> Columns:
        """Return the columns of an update, without allocating a model."""
        return Columns.of_model(self.model_without_weights())

    def model_without_weights(self) -> "nn.Module":
        """Return the model without allocating its weights."""
        import torch

        try:
            with torch.device("meta"), warnings.catch_warnings():
                # A pretrained model loads weights, which have no place to go here.
                warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter", UserWarning)
                return self.model()
        except FflbenchError:
            raise
        except Exception as error:
            # A plugin's code may fail in any way.
            reason = f"{type(error).__name__}: {error}"
            raise ParameterError(f"the model of {type(self).__name__} cannot be counted: {reason}") from error
