"""Optimiser of local training."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

if TYPE_CHECKING:
    from fflbench.tasks import Task


class Optimizer:
    """Adam or SGD with momentum, newly initialised, on one tensor: torch's functions without its classes.

    Making one of those imports torch's compiler, which takes two seconds in every worker, and each step through them
    costs as much as a step of a small model.
    """

    def __init__(self, task: "Task", weights: Tensor) -> None:
        self.task, self.weights = task, weights
        self.gradient = torch.empty_like(weights)
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros((), device=weights.device)
        self.start = weights.clone() if task.proximal else weights

    def keep_first_rows(self, count: int) -> None:
        """Update only the first rows from now on."""
        for name in ("weights", "gradient", "first", "second", "start"):
            setattr(self, name, getattr(self, name)[:count])

    def step(self) -> None:
        """Update the weights by `gradient`, to which the task's proximal term is added."""
        if self.task.proximal:
            self.gradient.add_(self.weights - self.start, alpha=self.task.proximal)
        if self.task.optimizer == "adam":
            adam(
                [self.weights],
                [self.gradient],
                [self.first],
                [self.second],
                [],
                [self.steps],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=self.task.learning_rate,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
        else:
            # A buffer of zeros makes the first step that of torch's class, which begins with the gradient itself.
            sgd(
                [self.weights],
                [self.gradient],
                [self.first],
                fused=True,
                weight_decay=0.0,
                momentum=self.task.momentum,
                lr=self.task.learning_rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
