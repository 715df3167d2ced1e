"""Training that increases the loss, close to the global model. An example."""

from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from fflbench.plugin import Attack, LocalTraining, Vector, attack

if TYPE_CHECKING:
    from torch import Tensor


@attack("bounded-ascent", title="Bounded ascent", knows=["own data"])
class BoundedAscent(Attack):
    """Train with the opposite gradient, and project the weights back to a ball around the global model."""

    radius: Annotated[float, Gt(0), "largest norm of an attacker's update"] = 2.0

    def train(self, local: LocalTraining) -> Vector:
        import torch

        centre = torch.tensor(local.weights[local.columns.parameters])

        def reverse(gradient: "Tensor") -> None:
            gradient.neg_()

        def project(weights: "Tensor") -> None:
            change = weights - centre
            weights.copy_(centre + change * min(1.0, self.radius / max(float(change.norm()), 1e-30)))

        return local.train(edit_gradient=reverse, edit_weights=project)
