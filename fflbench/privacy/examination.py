"""A model's outputs, losses, gradients and activations on single examples, at any weights."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fflbench.arrays.columns import Columns
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.losses import losses
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

BATCH = 2048
GRADIENTS = 1 << 24
"""Number of gradient values held in memory at once."""


class Examination:
    """A task's model, evaluated on one example at a time: batch normalisation and dropout are in evaluation mode."""

    def __init__(self, task: Task, model: FlatModel, x: Tensor, y: Tensor) -> None:
        self.task, self.module, self.columns = task, model.model, model.columns
        self.device = model.flat.device
        self.x, self.y = x, y
        self.each_gradient = vmap(grad(self._loss), in_dims=(None, None, 0, 0))

    def outputs(self, weights: Vector, which: Indices) -> Tensor:
        """Return the model's outputs, one row per example."""
        tensors = self._tensors(weights)
        with torch.no_grad():
            return torch.cat([self._call(tensors, self.x[some]) for some in self._batches(which, BATCH)])

    def losses(self, weights: Vector, which: Indices) -> Tensor:
        """Return the loss of each example."""
        return losses(self.task, self.outputs(weights, which), self.y[self._on_device(which)])

    def confidences(self, weights: Vector, which: Indices) -> Tensor:
        r"""Return the logit of each example's true class, $\log p - \log(1 - p)$: unbounded, and nearly normal."""
        outputs, y = self.outputs(weights, which).double(), self.y[self._on_device(which)]
        if self.task.loss == "binary-cross-entropy":
            return outputs.squeeze(-1) * (2 * y - 1)
        others = outputs.scatter(1, y[:, None], -torch.inf)
        return outputs.gather(1, y[:, None])[:, 0] - others.logsumexp(1)

    def gradients(self, weights: Vector, which: Indices) -> Iterator[Tensor]:
        """Yield the gradients of examples' losses by the parameters, one row per example, several rows at a time."""
        learned, others = self._tensors(weights), {}
        for name in set(learned) - set(parameters(self.columns)):
            others[name] = learned.pop(name)
        for some in self._batches(which, max(1, GRADIENTS // self.columns.count)):
            by_name = self.each_gradient(learned, others, self.x[some], self.y[some])
            yield torch.cat([by_name[name].flatten(1) for name in learned], 1)

    def spread(self, weights: Vector, which: Indices) -> Tensor:
        """Return the root mean square of each coordinate of the examples' gradients, never zero."""
        total = torch.zeros(self.columns.parameters.stop, device=self.device)
        for gradients in self.gradients(weights, which):
            total += gradients.square().sum(0)
        return (total / len(which)).sqrt().clamp(min=1e-8)

    def activations(self, weights: Vector, which: Indices) -> Tensor:
        """Return the inputs of the model's last layer, one row per example."""
        tensors, fed = self._tensors(weights), []
        last = _last_layer(self.module)
        hook = last.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].detach().flatten(1)))
        try:
            with torch.no_grad():
                for some in self._batches(which, BATCH):
                    self._call(tensors, self.x[some])
        finally:
            hook.remove()
        return torch.cat(fed)

    def _loss(self, learned: dict[str, Tensor], others: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return losses(self.task, self._call({**learned, **others}, x[None]), y[None]).sum()

    def _call(self, tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        self.module.eval()
        outputs: Tensor = functional_call(self.module, {**dict(self.module.named_buffers()), **tensors}, (x,))
        return outputs

    def _tensors(self, weights: Vector) -> dict[str, Tensor]:
        flat = torch.from_numpy(np.ascontiguousarray(weights)).to(self.device)
        return {name: flat[span].view(self.columns.shapes[name]) for name, span in self.columns.spans.items()}

    def _batches(self, which: Indices, size: int) -> Iterator[Tensor]:
        yield from torch.split(self._on_device(which), size)

    def _on_device(self, which: Indices) -> Tensor:
        return torch.from_numpy(which).to(self.device)


def parameters(columns: Columns) -> list[str]:
    """Return the names of a model's parameters, in the order of the columns."""
    return list(itertools.takewhile(lambda name: columns.spans[name].stop <= columns.parameters.stop, columns.spans))


def _last_layer(module: nn.Module) -> nn.Module:
    """Return the module that owns the last parameter."""
    return [each for each in module.modules() if next(each.parameters(recurse=False), None) is not None][-1]
