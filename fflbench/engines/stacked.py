"""The stacked engine: participants' models are slices of one tensor, and layers are batched matrix products."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from fflbench.engines.engine import LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.layers import KINDS, LayerSequence
from fflbench.engines.losses import loss_gradients
from fflbench.engines.optimizer import Optimizer
from fflbench.types import Indices, Matrix, Vector

STACK = 1 << 17
"""Weights in a stack: half a megabyte of float32, which with gradients and moments fits a core's cache."""

GATHERED = 16
"""Steps whose examples are gathered at once."""


class Stacked:
    """Engine that trains all participants at once; those with fewer batches stop earlier."""

    def __init__(self, model: FlatModel, data: LocalData) -> None:
        self.model, self.data = model, data
        self.layers: LayerSequence[Tensor] = LayerSequence(model.model, KINDS, "stacked")

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Train all models from the same start, as many at a time as fit the cache."""
        task = self.data.task
        orders = [self.data.example_order(who, round) for who in participants]
        size = min(task.batch_size, max(order.shape[1] for order in orders))
        batches = [_padded_batches(order, size, task.local_steps) for order in orders]
        # Participants with most batches first, so that a stack shrinks from its end as others finish.
        by_length = sorted(range(len(batches)), key=lambda place: -len(batches[place][0]))
        updates = np.empty((len(batches), len(weights)), np.float32)
        together = max(1, STACK // len(weights))
        for first in range(0, len(by_length), together):
            places = by_length[first : first + together]
            updates[places] = self._train_stack(weights, [batches[place] for place in places])
        return updates

    def _train_stack(self, weights: Vector, batches: list[tuple[Indices, Indices]]) -> Matrix:
        task, device = self.data.task, self.data.y.device
        start = torch.from_numpy(weights).to(device)
        stack = start.repeat(len(batches), 1)
        optimizer = Optimizer(task, stack)
        steps = np.array([len(counts) for _, counts in batches])
        for first, last in pairwise([0, *np.unique(steps)]):
            active = int((steps >= last).sum())
            optimizer.keep_first_rows(active)
            self._run_steps(
                optimizer,
                torch.from_numpy(np.stack([own[first:last] for own, _ in batches[:active]], 1)).to(device),
                torch.from_numpy(np.stack([own[first:last] for _, own in batches[:active]], 1)).to(device),
            )
        changes: Matrix = stack.sub_(start).cpu().numpy()
        return changes

    @torch.no_grad()
    def _run_steps(self, optimizer: Optimizer, indices: Tensor, counts: Tensor) -> None:
        """Run one step per row of batches; indices are steps x participants x batch, the first `counts` not padding."""
        data = self.data
        self.layers.bind(self._tensor_views(optimizer.weights), self._tensor_views(optimizer.gradient))
        # Every participant's mean over its own batch; padding has weight zero.
        shares = (torch.arange(indices.shape[-1], device=counts.device) < counts[..., None]) / counts[..., None]
        for some, of_each in zip(torch.split(indices, GATHERED), torch.split(shares, GATHERED), strict=True):
            x = data.x.index_select(0, some.flatten()).view(*some.shape, *data.x.shape[1:])
            y = data.y.index_select(0, some.flatten()).view(some.shape)
            for batch, labels, share in zip(x.unbind(), y.unbind(), of_each.unbind(), strict=True):
                outputs = self.layers.forward(batch)
                self.layers.backward(loss_gradients(data.task, outputs, labels).mul_(share.unsqueeze(-1)))
                optimizer.step()

    def _tensor_views(self, stack: Tensor) -> dict[str, Tensor]:
        """Return every participant's tensors, as views of a stack."""
        columns = self.model.columns
        return {name: stack[:, span].view(len(stack), *columns.shapes[name]) for name, span in columns.spans.items()}


def _padded_batches(order: Indices, size: int, steps: int | None) -> tuple[Indices, Indices]:
    """Return the batches of each epoch as indices, padded to full size, and the sizes without padding."""
    epochs, examples = order.shape
    per_epoch = math.ceil(examples / size)
    # Padded with the participant's own last example: another's could hold NaN, and 0 times NaN is NaN.
    padded = np.empty((epochs, per_epoch * size), order.dtype)
    padded[:, :examples], padded[:, examples:] = order, order[:, -1:]
    counts = np.full((epochs, per_epoch), size)
    counts[:, -1] = examples - (per_epoch - 1) * size
    return padded.reshape(-1, size)[:steps], counts.reshape(-1)[:steps]
