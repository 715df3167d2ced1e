"""Training by torch's own optimisers, one participant after the other. An example."""

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from fflbench.plugin import Indices, Matrix, Vector, engine

if TYPE_CHECKING:
    from fflbench.plugin import Engine, FlatModel, LocalData


class TorchOptimizers:
    """Engine that trains every participant with torch.optim."""

    def __init__(self, model: "FlatModel", data: "LocalData") -> None:
        self.model, self.data = model, data

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Return the participants' updates, one row per participant."""
        return np.stack([self.train_one(weights, int(who), round) for who in participants])

    def train_one(self, weights: Vector, participant: int, round: int) -> Vector:
        """Return one participant's update."""
        import torch

        from fflbench.plugin import losses

        data, task, model = self.data, self.data.task, self.model.model.train()
        self.model.load(weights)
        # Of dropout and the like.
        torch.manual_seed(data.torch_seed(participant, round))
        start = [parameter.detach().clone() for parameter in model.parameters()]
        if task.optimizer == "adam":
            optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), task.learning_rate)
        else:
            optimizer = torch.optim.SGD(model.parameters(), task.learning_rate, task.momentum)
        epochs = torch.from_numpy(data.example_order(participant, round))
        for batch in islice((batch for epoch in epochs for batch in epoch.split(task.batch_size)), task.local_steps):
            loss = losses(task, model(data.x[batch]), data.y[batch]).mean()
            for parameter, first in zip(model.parameters(), start, strict=True):
                loss = loss + task.proximal / 2 * (parameter - first).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return self.model.flat.cpu().numpy() - weights


@engine("torch-optimizers", title="Torch optimizers")
def torch_optimizers(model: "FlatModel", data: "LocalData") -> "Engine":
    """Train one participant after the other with torch.optim."""
    return TorchOptimizers(model, data)
