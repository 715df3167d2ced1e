"""Local training of participants from the global model on their own examples.

Two engines give the same updates up to rounding. `loop` trains one participant after the other, any model; `stacked`
trains all at once as batched products, which is several times faster for small models and slower for larger
convolutions. A task names its engine.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from fflbench.federation.columns import Columns, tensors
from fflbench.randomness import stream
from fflbench.types import Indices, Matrix, Vector

if TYPE_CHECKING:
    from fflbench.tasks import Task


class Engine(Protocol):
    """Interface of training engines."""

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Return the participants' updates, one row per participant."""


class Holdings:
    """Examples by participant: one pool of inputs and labels, and the indices of each participant's own."""

    def __init__(self, x: Tensor, y: Tensor, indices: Sequence[Indices], seed: int, task: "Task") -> None:
        self.x, self.y, self.indices = x, y, indices
        self.seed, self.task = seed, task

    def order(self, participant: int, round: int) -> Indices:
        """Return the order in which a participant visits its examples, one row per epoch.

        It depends on nothing but seed, participant and round, so that all defenses are compared on the same batches.
        """
        rng = stream(self.seed, "batches", participant, round)
        own = self.indices[participant]
        return np.stack([rng.permutation(own) for _ in range(self.task.local_epochs)])

    def torch_seed(self, participant: int, round: int) -> int:
        """Return the seed of the model's own randomness, such as dropout."""
        return int(stream(self.seed, "training", participant, round).integers(2**63))


class FlatModel:
    """A model whose tensors are views of one vector, laid out as the columns of an update."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.model = model.to(device)
        self.columns = Columns.of(model)
        self.flat = torch.empty(self.columns.count, device=device)
        for name, tensor in tensors(self.model):
            view = self.flat[self.columns.spans[name]].view(tensor.shape)
            view.copy_(tensor.detach())
            tensor.data = view

    def load(self, weights: Vector) -> None:
        """Set the model's weights."""
        self.flat.copy_(torch.from_numpy(weights))


class Loop:
    """Engine that trains one participant at a time."""

    def __init__(self, model: FlatModel, holdings: Holdings) -> None:
        self.model, self.holdings = model, holdings
        self.parameters = list(model.model.parameters())
        self.learned = model.flat[model.columns.parameters]

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Train each participant's model from the same start."""
        updates = np.empty((len(participants), len(weights)), np.float32)
        self.model.model.train()
        device = self.model.flat.device
        # Dropout and the like draw from torch's own generator, which also follows seed, participant and round.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            for participant, row in zip(participants, updates, strict=True):
                torch.manual_seed(self.holdings.torch_seed(participant, round))
                self.model.load(weights)
                self._train_one(participant, round)
                np.subtract(self.model.flat.cpu().numpy(), weights, out=row)
        return updates

    def _train_one(self, participant: int, round: int) -> None:
        task, holdings = self.holdings.task, self.holdings
        optimizer = Optimizer(task, self.learned)
        for epoch in torch.from_numpy(holdings.order(participant, round)).to(holdings.y.device):
            x, y = holdings.x[epoch], holdings.y[epoch]
            if x.ndim == 4:
                # `contiguous` would leave images of one channel as they are, and they gain most.
                x = x.to(memory_format=torch.channels_last)
            for batch, labels in zip(torch.split(x, task.batch_size), torch.split(y, task.batch_size), strict=True):
                gradients = torch.autograd.grad(losses(task, self.model.model(batch), labels).mean(), self.parameters)
                torch.cat([gradient.reshape(-1) for gradient in gradients], out=optimizer.gradient)
                optimizer.step()


class Optimizer:
    """Adam or SGD with momentum, newly initialised, on one tensor: torch's functions without its classes.

    Making one of those imports torch's compiler, which takes two seconds in every worker, and each step through them
    costs as much as a step of a small model.
    """

    def __init__(self, task: "Task", weights: Tensor) -> None:
        self.task, self.weights = task, weights
        self.gradient = torch.empty_like(weights)
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros((), device=weights.device)

    def keep(self, count: int) -> None:
        """Update only the first rows from now on."""
        for name in ("weights", "gradient", "first", "second"):
            setattr(self, name, getattr(self, name)[:count])

    def step(self) -> None:
        """Update the weights by `gradient`."""
        if self.task.optimizer == "adam":
            adam(
                [self.weights],
                [self.gradient],
                [self.first],
                [self.second],
                [],
                [self.steps],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=self.task.learning_rate,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
        else:
            # A buffer of zeros makes the first step that of torch's class, which begins with the gradient itself.
            sgd(
                [self.weights],
                [self.gradient],
                [self.first],
                fused=True,
                weight_decay=0.0,
                momentum=self.task.momentum,
                lr=self.task.learning_rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )


def losses(task: "Task", outputs: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every example; leading dimensions of outputs and labels agree."""
    if task.loss == "binary-cross-entropy":
        return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), y.to(outputs.dtype), reduction="none")
    flat = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), y.reshape(-1), reduction="none")
    return flat.view(y.shape)


def loss_gradients(task: "Task", outputs: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of every example's loss by its outputs: probabilities minus labels, for both losses."""
    if task.loss == "binary-cross-entropy":
        return outputs.sigmoid().sub_(y.unsqueeze(-1))
    gradients = outputs.softmax(-1)
    return gradients.scatter_add_(-1, y.unsqueeze(-1), gradients.new_full((), -1).expand(*y.shape, 1))


def engine(model: FlatModel, holdings: Holdings) -> Engine:
    """Return the engine that the task names."""
    from fflbench.federation.stacked import Stacked

    return Stacked(model, holdings) if holdings.task.engine == "stacked" else Loop(model, holdings)
