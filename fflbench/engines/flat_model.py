"""Models whose weights are one vector."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fflbench.arrays.columns import Columns, update_tensors
from fflbench.types import Vector


class FlatModel:
    """A model whose tensors are views of one vector, laid out as the columns of an update."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.model = model.to(device)
        self.columns = Columns.of_model(model)
        self.flat = torch.empty(self.columns.count, device=device)
        for name, tensor in update_tensors(self.model):
            view = self.flat[self.columns.spans[name]].view(tensor.shape)
            view.copy_(tensor.detach())
            tensor.data = view
        self.faster_forward: Callable[[Tensor], Tensor] | None = None
        """Function from inputs to outputs that an engine has, for evaluation."""

    def load(self, weights: Vector) -> None:
        """Set the model's weights."""
        self.flat.copy_(torch.from_numpy(weights))

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for some inputs, in evaluation mode."""
        if self.faster_forward:
            return self.faster_forward(x)
        self.model.eval()
        # A copy, since a model may modify its input in place.
        outputs: Tensor = self.model(x.to(memory_format=torch.channels_last, copy=True) if x.ndim == 4 else x.clone())
        return outputs
