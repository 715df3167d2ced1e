"""Victims of reconstruction: participants with a few examples each, who train from the same global model.

They train by plain gradient descent on all their examples at once, without momentum: an update is then the sum of its
gradients times the negative learning rate, and dividing by that rate and the number of steps gives back their mean.
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
class Group:
    """Participants of one round: their examples, and their updates."""

    x: Inputs
    """Inputs, participants x examples x the shape of one."""
    y: Labels
    updates: Matrix


def draw(task: Task, groups: int, people: int, batch: int, seed: int) -> list[Indices]:
    """Return the training examples of each group, without repetition: groups x participants x batch, as indices."""
    order = stream(seed, "victims").permutation(len(task.data().train.y))
    needed = groups * people * batch
    if needed > len(order):
        raise ParameterError(f"{groups} groups of {people} with {batch} examples each need {needed} of {len(order)}")
    return list(order[:needed].reshape(groups, people, batch))


def value_range(x: Inputs) -> tuple[Inputs, Inputs]:
    """Return the least and the greatest value of each channel of images, or of each feature of other examples."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    return x.min(axes, keepdims=True)[0], x.max(axes, keepdims=True)[0]


def prepare(task: Task, model: FlatModel, held: list[Indices], epochs: int, seed: int) -> None:
    """Train the global model on examples that no victim holds, and set it to evaluation mode.

    Batch normalisation then uses its running statistics and dropout is off, for victims as for the attack.
    """
    if epochs:
        data = task.data().train
        others = np.setdiff1d(np.arange(len(data.y)), np.concatenate(held))
        x, y = (torch.from_numpy(part).to(model.flat.device) for part in (data.x, data.y))
        training = Loop(model, LocalData(x, y, [others], seed, replace(task, local_epochs=epochs)))
        weights = model.flat.cpu().numpy().copy()
        model.load(weights + training.train(weights, np.array([0]), 0)[0])
    model.model.eval()


def trained(task: Task, model: FlatModel, held: Indices, steps: int, rate: float) -> Group:
    """Return a group with its updates."""
    data, device = task.data().train, model.flat.device
    x, y = data.x[held], data.y[held]
    own, labels = (torch.from_numpy(part).to(device) for part in (x, y))
    return Group(x, y, changes(task, model, own, labels, steps, rate))


def changes(task: Task, model: FlatModel, x: torch.Tensor, y: torch.Tensor, steps: int, rate: float) -> Matrix:
    """Return one row per participant: local weights minus global ones."""
    module, columns = model.model, model.columns
    start = {name: value.detach().clone() for name, value in module.named_parameters()}
    buffers = dict(module.named_buffers())

    def loss(weights: dict[str, torch.Tensor], own: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return losses(task, functional_call(module, {**weights, **buffers}, (own,)), labels).mean()

    each = vmap(grad(loss))
    weights = {name: value.expand(len(x), *value.shape).clone() for name, value in start.items()}
    for _ in range(steps):
        gradient = each(weights, x, y)
        weights = {name: value - rate * gradient[name] for name, value in weights.items()}
    rows = np.zeros((len(x), columns.count), np.float32)
    for name, value in weights.items():
        rows[:, columns.spans[name]] = (value - start[name]).flatten(1).cpu().numpy()
    return rows


def gradients(model: FlatModel, rows: list[Vector], steps: int, rate: float) -> tuple[torch.Tensor, ...]:
    """Return updates as mean gradients, one tensor per parameter."""
    stacked = torch.from_numpy(np.stack(rows) / np.float32(-rate * steps)).to(model.flat.device)
    columns = model.columns
    names = [name for name, span in columns.spans.items() if span.stop <= columns.parameters.stop]
    return tuple(stacked[:, columns.spans[name]].view(len(rows), *columns.shapes[name]) for name in names)
