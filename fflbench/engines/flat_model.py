"""Models whose weights are one vector."""

import torch
from torch import nn

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

    def load(self, weights: Vector) -> None:
        """Set the model's weights."""
        self.flat.copy_(torch.from_numpy(weights))
