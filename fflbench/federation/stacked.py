"""The stacked engine: every participant's model is a slice of one tensor, and a layer is a batched product."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fflbench.errors import ParameterError
from fflbench.federation.training import FlatModel, Holdings, losses
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's, as torch has them by default."""

ELEMENTWISE = (nn.ReLU, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.Identity)


class Stacked:
    """All participants at once. Those with fewer batches finish earlier and are left as they are from then on."""

    def __init__(self, model: FlatModel, holdings: Holdings) -> None:
        self.model, self.holdings = model, holdings
        is_sequence = type(model.model) is nn.Sequential
        self.layers = dict(model.model.named_children()) if is_sequence else {"": model.model}
        for layer in self.layers.values():
            if not _can_stack(layer):
                raise ParameterError(f'engine = "stacked" cannot train {type(layer).__name__}; use engine = "loop"')

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Train all models from the same start, the ones with most batches first in the stack."""
        task, device = self.holdings.task, self.holdings.y.device
        orders = [self.holdings.order(who, round) for who in participants]
        size = min(task.batch_size, max(order.shape[1] for order in orders))
        batches = [_batches(order, size) for order in orders]
        by_length = sorted(range(len(batches)), key=lambda place: -len(batches[place][0]))
        steps = np.array([len(batches[place][0]) for place in by_length])
        indices = np.zeros((len(steps), steps[0], size), np.int64)
        counts = np.zeros((len(steps), steps[0]), np.int64)
        for place, source in enumerate(by_length):
            indices[place, : steps[place]], counts[place, : steps[place]] = batches[source]
        start = torch.from_numpy(weights).to(device)
        stack = start.repeat(len(steps), 1)
        # The stack shrinks from its end as participants run out of batches.
        ends = [0, *np.unique(steps)]
        optimizer = _Optimizer(stack, task)
        for first, last in pairwise(ends):
            optimizer.keep(int((steps >= last).sum()))
            active = slice(len(optimizer.weights)), slice(first, last)
            self._steps(
                optimizer, torch.from_numpy(indices[active]).to(device), torch.from_numpy(counts[active]).to(device)
            )
        updates = np.empty((len(steps), len(weights)), np.float32)
        updates[by_length] = (stack - start).cpu().numpy()
        return updates

    def _steps(self, optimizer: "_Optimizer", indices: Tensor, counts: Tensor) -> None:
        """One step for every column of batches."""
        holdings, columns, stack = self.holdings, self.model.columns, optimizer.weights
        weights = {
            name: stack[:, span].view(len(stack), *columns.shapes[name]).detach().requires_grad_()
            for name, span in columns.spans.items()
        }
        gradients = torch.empty_like(stack)
        # Every participant's own mean over its own batch; padding counts for nothing.
        shares = (torch.arange(indices.shape[-1], device=counts.device) < counts[..., None]) / counts[..., None]
        for batch, share in zip(indices.unbind(1), shares.unbind(1), strict=True):
            loss = losses(holdings.task, self._forward(weights, holdings.x[batch]), holdings.y[batch])
            found = torch.autograd.grad((loss * share).sum(), list(weights.values()))
            torch.cat([gradient.flatten(1) for gradient in found], 1, out=gradients)
            optimizer.step(gradients)

    def _forward(self, weights: dict[str, Tensor], h: Tensor) -> Tensor:
        """The outputs of every participant's model on its own batch: h is participants x batch x the input's shape."""
        for name, layer in self.layers.items():
            prefix = f"{name}." if name else ""
            if isinstance(layer, nn.Linear):
                h = torch.bmm(h, weights[f"{prefix}weight"].transpose(1, 2))
                if layer.bias is not None:
                    h = h + weights[f"{prefix}bias"].unsqueeze(1)
            elif isinstance(layer, nn.Conv2d):
                h = _convolve(layer, h, weights[f"{prefix}weight"], weights.get(f"{prefix}bias"))
            elif isinstance(layer, nn.MaxPool2d):
                pooled = layer(h.flatten(0, 1))
                h = pooled.view(*h.shape[:2], *pooled.shape[1:])
            elif isinstance(layer, nn.Flatten):
                h = h.flatten(2)
            else:
                h = layer(h)
        return h


class _Optimizer:
    """SGD with momentum or Adam on a whole stack of models, as torch defines them for one."""

    def __init__(self, weights: Tensor, task: Task) -> None:
        self.weights, self.task, self.done = weights, task, 0
        self.moments = [torch.zeros_like(weights) for _ in range(2 if task.optimizer == "adam" else 1)]

    def keep(self, count: int) -> None:
        """From now on, leave all but the first models as they are."""
        self.weights = self.weights[:count]
        self.moments = [moment[:count] for moment in self.moments]

    def step(self, gradients: Tensor) -> None:
        """Move every model by its own gradient."""
        rate = self.task.learning_rate
        if self.task.optimizer == "sgd":
            (velocity,) = self.moments
            self.weights.sub_(velocity.mul_(self.task.momentum).add_(gradients), alpha=rate)
            return
        self.done += 1
        mean, square = self.moments
        mean.lerp_(gradients, 1 - BETA1)
        square.mul_(BETA2).addcmul_(gradients, gradients, value=1 - BETA2)
        scale = square.sqrt().div_(math.sqrt(1 - BETA2**self.done)).add_(EPSILON)
        self.weights.addcdiv_(mean, scale, value=-rate / (1 - BETA1**self.done))


def _can_stack(layer: nn.Module) -> bool:
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros"
    if type(layer) is nn.Flatten:
        return (layer.start_dim, layer.end_dim) == (1, -1)
    return type(layer) in (nn.Linear, nn.MaxPool2d, *ELEMENTWISE)


def _convolve(layer: nn.Conv2d, h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Each participant's convolution as one group of a large one."""
    participants, batch = h.shape[:2]
    merged = h.transpose(0, 1).flatten(1, 2)
    result = F.conv2d(
        merged,
        weight.flatten(0, 1),
        None if bias is None else bias.flatten(),
        layer.stride,
        layer.padding,
        layer.dilation,
        groups=participants,
    )
    return result.view(batch, participants, -1, *result.shape[2:]).transpose(0, 1)


def _batches(order: Indices, size: int) -> tuple[Indices, Indices]:
    """Cut each epoch into batches: their indices, padded to full size, and how many of them count."""
    epochs, examples = order.shape
    per_epoch = math.ceil(examples / size)
    # With the participant's own last example: somebody else's could hold anything, and 0 times NaN is NaN.
    padded = np.pad(order, ((0, 0), (0, per_epoch * size - examples)), mode="edge")
    counts = np.full((epochs, per_epoch), size)
    counts[:, -1] = examples - (per_epoch - 1) * size
    return padded.reshape(-1, size), counts.reshape(-1)
