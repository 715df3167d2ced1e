"""Attacks with a local training of their own: one constrained to a ball, one in a loop of its own. Examples."""

from typing import TYPE_CHECKING, Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Attack, Examples, LocalTraining, Task, Vector, attack

if TYPE_CHECKING:
    from torch import Tensor


@attack(
    "projected-gradient",
    title="Projected gradient",
    knows=["own data"],
    citation="Wang et al., Attack of the tails: yes, you really can backdoor federated learning, NeurIPS 2020.",
)
class ProjectedGradient(Attack):
    """Train on shifted labels, and project the model onto a ball around the global one after every step."""

    radius: Annotated[float, Gt(0), "largest norm of an attacker's update"] = 0.5

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        return Examples(examples.x, (examples.y + 1) % len(task.classes))

    def train(self, local: LocalTraining) -> Vector:
        import torch

        centre = torch.tensor(local.weights[local.columns.parameters])

        def project(weights: "Tensor") -> None:
            change = weights - centre.to(weights.device)
            weights.sub_(change, alpha=max(0.0, 1 - self.radius / max(change.norm().item(), self.radius)))

        return local.train(edit_weights=project)


@attack("gradient-ascent", title="Gradient ascent", knows=["own data"])
class GradientAscent(Attack):
    """Maximise the loss of the attacker's own examples, by a few steps of normalised gradient ascent."""

    steps: Annotated[int, Gt(0), "steps in a round"] = 3
    step: Annotated[float, Gt(0), "norm of a step"] = 0.5

    def train(self, local: LocalTraining) -> Vector:
        import torch
        from torch.nn import functional as F

        x, y = torch.tensor(local.examples.x), torch.tensor(local.examples.y)
        for _ in range(self.steps):
            loss = F.cross_entropy(local.model(x), y)
            parameters = list(local.model.parameters())
            gradients = torch.autograd.grad(loss, parameters)
            norm = torch.cat([each.flatten() for each in gradients]).norm()
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter += self.step * gradient / norm
        return local.change()
