"""Per-example signals for membership inference: outputs, losses, gradients and activations at any weights."""

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

BATCH_SIZE = 2048
GRADIENT_VALUES = 1 << 24
"""Number of gradient values held in memory at once."""


class PerExampleSignals:
    """Signals of single examples under a task's model; batch normalisation and dropout are in evaluation mode."""

    def __init__(self, task: Task, model: FlatModel, x: Tensor, y: Tensor) -> None:
        self.task, self.module, self.columns = task, model.model, model.columns
        self.device = model.flat.device
        self.x, self.y = x, y
        self.per_example_gradient = vmap(grad(self._loss_of_example), in_dims=(None, None, 0, 0))

    def outputs(self, weights: Vector, indices: Indices) -> Tensor:
        """Return the model's outputs, one row per example."""
        tensors = self._weights_by_name(weights)
        with torch.no_grad():
            return torch.cat(
                [self._model_outputs(tensors, self.x[batch]) for batch in self._index_batches(indices, BATCH_SIZE)]
            )

    def losses(self, weights: Vector, indices: Indices) -> Tensor:
        """Return the loss of each example."""
        return losses(self.task, self.outputs(weights, indices), self.y[self._indices_on_device(indices)])

    def logit_confidences(self, weights: Vector, indices: Indices) -> Tensor:
        r"""Return the logit of each example's true class, $\log p - \log(1 - p)$: unbounded, and nearly normal."""
        outputs, y = self.outputs(weights, indices).double(), self.y[self._indices_on_device(indices)]
        if self.task.loss == "binary-cross-entropy":
            return outputs.squeeze(-1) * (2 * y - 1)
        others = outputs.scatter(1, y[:, None], -torch.inf)
        return outputs.gather(1, y[:, None])[:, 0] - others.logsumexp(1)

    def gradient_batches(self, weights: Vector, indices: Indices) -> Iterator[Tensor]:
        """Yield the gradients of examples' losses by the parameters, one row per example, several rows at a time."""
        tensors, trained = self._weights_by_name(weights), self._trained_names()
        trainable = {name: tensors[name] for name in trained}
        fixed = {name: tensor for name, tensor in tensors.items() if name not in trainable}
        for batch in self._index_batches(indices, max(1, GRADIENT_VALUES // self.columns.count)):
            by_name = self.per_example_gradient(trainable, fixed, self.x[batch], self.y[batch])
            # Participants leave frozen parameters as they are.
            yield torch.cat(
                [
                    by_name[name].flatten(1)
                    if name in by_name
                    else tensors[name].new_zeros(len(batch), tensors[name].numel())
                    for name in parameter_names(self.columns)
                ],
                1,
            )

    def gradient_rms_by_coordinate(self, weights: Vector, indices: Indices) -> Tensor:
        """Return the root mean square of each coordinate of the examples' gradients, never zero."""
        total = torch.zeros(self.columns.parameters.stop, device=self.device)
        for gradients in self.gradient_batches(weights, indices):
            total += gradients.square().sum(0)
        return (total / len(indices)).sqrt().clamp(min=1e-8)

    def last_layer_inputs(self, weights: Vector, indices: Indices) -> Tensor:
        """Return the inputs of the model's last layer, one row per example."""
        tensors, inputs = self._weights_by_name(weights), []
        last = _last_layer(self.module)
        hook = last.register_forward_pre_hook(lambda _, given: inputs.append(given[0].detach().flatten(1)))
        try:
            with torch.no_grad():
                for batch in self._index_batches(indices, BATCH_SIZE):
                    self._model_outputs(tensors, self.x[batch])
        finally:
            hook.remove()
        return torch.cat(inputs)

    def _trained_names(self) -> list[str]:
        return [name for name, parameter in self.module.named_parameters() if parameter.requires_grad]

    def _loss_of_example(self, trainable: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return losses(self.task, self._model_outputs({**trainable, **fixed}, x[None]), y[None]).sum()

    def _model_outputs(self, tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        self.module.eval()
        outputs: Tensor = functional_call(self.module, {**dict(self.module.named_buffers()), **tensors}, (x,))
        return outputs

    def _weights_by_name(self, weights: Vector) -> dict[str, Tensor]:
        flat = torch.from_numpy(np.ascontiguousarray(weights)).to(self.device)
        return {name: flat[span].view(self.columns.shapes[name]) for name, span in self.columns.spans.items()}

    def _index_batches(self, indices: Indices, size: int) -> Iterator[Tensor]:
        yield from torch.split(self._indices_on_device(indices), size)

    def _indices_on_device(self, indices: Indices) -> Tensor:
        return torch.from_numpy(indices).to(self.device)


def parameter_names(columns: Columns) -> list[str]:
    """Return the names of a model's parameters in the order of an update's columns."""
    return list(itertools.takewhile(lambda name: columns.spans[name].stop <= columns.parameters.stop, columns.spans))


def _last_layer(module: nn.Module) -> nn.Module:
    """Return the module that owns the last parameter."""
    return [each for each in module.modules() if next(each.parameters(recurse=False), None) is not None][-1]
