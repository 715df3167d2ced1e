"""Engine that trains one participant after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fflbench.engines.engine import LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.losses import losses
from fflbench.engines.optimizer import Optimizer
from fflbench.errors import ParameterError
from fflbench.types import Indices, Matrix, Vector

Edit = Callable[[Tensor], object]
"""Function that changes a vector in place."""


class Loop:
    """Engine that trains one participant at a time."""

    def __init__(self, model: FlatModel, data: LocalData) -> None:
        self.model, self.data = model, data
        self.parameters = list(model.model.parameters())
        self.trained = [parameter for parameter in self.parameters if parameter.requires_grad]
        if not self.trained:
            raise ParameterError("all parameters of the model are frozen, so that there is nothing to train")
        self.learned = model.flat[model.columns.parameters]

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Train each participant's model from the same start."""
        updates = np.empty((len(participants), len(weights)), np.float32)
        for participant, row in zip(participants, updates, strict=True):
            row[:] = self.train_one(weights, int(participant), round)
        return updates

    def train_one(
        self,
        weights: Vector,
        participant: int,
        round: int,
        edit_gradient: Edit | None = None,
        edit_weights: Edit | None = None,
    ) -> Vector:
        """Return one participant's update.

        `edit_gradient` may change the gradient of all parameters before each step, `edit_weights` all parameters after
        it, in place.
        """
        device = self.model.flat.device
        self.model.model.train()
        self.model.load(weights)
        # Dropout and the like draw from torch's own generator, which also follows seed, participant and round.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.data.torch_seed(participant, round))
            optimizer = Optimizer(self.data.task, self.learned)
            for batch, labels in islice(self._batches(participant, round), self.data.task.local_steps):
                loss = losses(self.data.task, self.model.model(batch), labels).mean()
                gradients = torch.autograd.grad(loss, self.trained)
                torch.cat([gradient.reshape(-1) for gradient in self._with_frozen(gradients)], out=optimizer.gradient)
                if edit_gradient:
                    edit_gradient(optimizer.gradient)
                optimizer.step()
                if edit_weights:
                    edit_weights(self.learned)
        update: Vector = self.model.flat.cpu().numpy() - weights
        return update

    def _with_frozen(self, gradients: Sequence[Tensor]) -> Iterable[Tensor]:
        """Return one gradient per parameter: zeros for frozen ones, as of a pretrained model."""
        if len(gradients) == len(self.parameters):
            return gradients
        given = iter(gradients)
        return [next(given) if each.requires_grad else torch.zeros_like(each) for each in self.parameters]

    def _batches(self, participant: int, round: int) -> Iterator[tuple[Tensor, Tensor]]:
        data, size = self.data, self.data.task.batch_size
        for epoch in torch.from_numpy(data.example_order(participant, round)).to(data.y.device):
            x, y = data.x[epoch], data.y[epoch]
            if x.ndim == 4:
                # `contiguous` would leave images of one channel as they are, and they gain most.
                x = x.to(memory_format=torch.channels_last)
            yield from zip(torch.split(x, size), torch.split(y, size), strict=True)
