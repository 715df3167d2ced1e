"""Losses of tasks, and their gradients by a model's outputs."""

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from fflbench.tasks import Task


def losses(task: "Task", outputs: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every example; leading dimensions of outputs and labels agree."""
    if task.loss == "binary-cross-entropy":
        return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), y.to(outputs.dtype), reduction="none")
    flat = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), y.reshape(-1), reduction="none")
    return flat.view(y.shape)


def loss_gradients(task: "Task", outputs: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of every example's loss by its outputs: probabilities minus labels, for both losses."""
    if task.loss == "binary-cross-entropy":
        return outputs.sigmoid().sub_(y.unsqueeze(-1))
    gradients = outputs.softmax(-1)
    return gradients.scatter_add_(-1, y.unsqueeze(-1), gradients.new_full((), -1).expand(*y.shape, 1))
