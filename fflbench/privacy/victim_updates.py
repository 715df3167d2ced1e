"""Updates of victims of reconstruction: participants with a few examples each and the same global model.

They train by full-batch gradient descent without momentum: an update is then the sum of its gradients times the
negative learning rate, and division by that rate and the number of steps recovers their mean.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from fflbench.engines.engine import LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.loop import Loop
from fflbench.engines.losses import losses
from fflbench.errors import ParameterError
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Inputs, Labels, Matrix, Vector


@dataclass(frozen=True)
class Victims:
    """Examples and updates of the participants of one round."""

    x: Inputs
    """Inputs, participants x examples x the shape of one."""
    y: Labels
    updates: Matrix


def draw_victim_examples(task: Task, groups: int, participants: int, batch: int, seed: int) -> list[Indices]:
    """Return the training examples of each group, without repetition: groups x participants x batch, as indices."""
    order = stream(seed, "victims").permutation(len(task.data().train.y))
    needed = groups * participants * batch
    if needed > len(order):
        raise ParameterError(
            f"{groups} groups of {participants} with {batch} examples each need {needed} of {len(order)}"
        )
    return list(order[:needed].reshape(groups, participants, batch))


def value_range(x: Inputs) -> tuple[Inputs, Inputs]:
    """Return the least and the greatest value of each channel of images, or of each feature of other examples."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    return x.min(axes, keepdims=True)[0], x.max(axes, keepdims=True)[0]


def pretrain_global_model(task: Task, model: FlatModel, held: list[Indices], epochs: int, seed: int) -> None:
    """Train the global model on examples that no victim holds, and set it to evaluation mode.

    Batch normalisation then uses its running statistics and dropout is off, for victims as for the attack.
    """
    if epochs:
        data = task.data().train
        unused = np.setdiff1d(np.arange(len(data.y)), np.concatenate(held))
        x, y = (torch.from_numpy(part).to(model.flat.device) for part in (data.x, data.y))
        # Whole epochs, and no term of federated learning.
        central = replace(task, local_epochs=epochs, local_steps=None, proximal=0.0)
        training = Loop(model, LocalData(x, y, [unused], seed, central))
        weights = model.flat.cpu().numpy().copy()
        model.load(weights + training.train(weights, np.array([0]), 0)[0])
    model.model.eval()


def train_victims(task: Task, model: FlatModel, held: Indices, steps: int, rate: float) -> Victims:
    """Return the victims of one round after local training."""
    data, device = task.data().train, model.flat.device
    x, y = data.x[held], data.y[held]
    inputs, labels = (torch.from_numpy(part).to(device) for part in (x, y))
    return Victims(x, y, gradient_descent_updates(task, model, inputs, labels, steps, rate))


def gradient_descent_updates(
    task: Task, model: FlatModel, x: torch.Tensor, y: torch.Tensor, steps: int, rate: float
) -> Matrix:
    """Return one update per participant: local weights minus global weights."""
    module, columns = model.model, model.columns
    start = {name: value.detach().clone() for name, value in module.named_parameters() if value.requires_grad}
    frozen = {name: value for name, value in module.named_parameters() if not value.requires_grad}
    fixed = {**frozen, **dict(module.named_buffers())}

    def loss(weights: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return losses(task, functional_call(module, {**weights, **fixed}, (inputs,)), labels).mean()

    gradients = vmap(grad(loss))
    weights = {name: value.expand(len(x), *value.shape).clone() for name, value in start.items()}
    for _ in range(steps):
        gradient = gradients(weights, x, y)
        weights = {name: value - rate * gradient[name] for name, value in weights.items()}
    rows = np.zeros((len(x), columns.count), np.float32)
    for name, value in weights.items():
        rows[:, columns.spans[name]] = (value - start[name]).flatten(1).cpu().numpy()
    return rows


def gradients_from_updates(model: FlatModel, rows: list[Vector], steps: int, rate: float) -> tuple[torch.Tensor, ...]:
    """Return the mean gradients behind updates, one tensor per parameter."""
    stacked = torch.from_numpy(np.stack(rows) / np.float32(-rate * steps)).to(model.flat.device)
    columns = model.columns
    names = [name for name, span in columns.spans.items() if span.stop <= columns.parameters.stop]
    return tuple(stacked[:, columns.spans[name]].view(len(rows), *columns.shapes[name]) for name in names)
