"""An engine of torch's own optimisers, one participant after the other. An example."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fflbench.plugin import Indices, Matrix, Vector, engine

if TYPE_CHECKING:
    from torch import nn


class TorchEngine:
    """Train with cross-entropy and plain SGD, for as many epochs as the task has."""

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = model, data

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Return the participants' updates, one row per participant."""
        return np.stack([self._train(weights, int(participant), round) for participant in participants])

    def _train(self, weights: Vector, participant: int, round: int) -> Vector:
        import torch
        from torch.nn import functional as F

        data, task = self.data, self.data.task
        self.model.load(weights)
        model: nn.Module = self.model.model.train()
        optimizer = torch.optim.SGD(model.parameters(), task.learning_rate, momentum=task.momentum)
        for epoch in torch.from_numpy(data.example_order(participant, round)):
            for batch in epoch.split(task.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(data.x[batch]), data.y[batch]).backward()
                optimizer.step()
        update: Vector = self.model.flat.numpy() - weights
        return update


@engine("torch-optim", title="Torch's optimisers")
def torch_optim(model: Any, data: Any) -> TorchEngine:
    """Train one participant after the other by torch.optim."""
    return TorchEngine(model, data)
