"""Membership inference by the cosine of an example's gradient and the update."""

from typing import TYPE_CHECKING

import numpy as np

from fflbench.privacy.membership import MembershipAttack, Server
from fflbench.registration import privacy_attack
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack(
    "gradient-alignment",
    title="Gradient alignment",
    knows=["server view"],
    citation="Li, Li and Ribeiro, Effective passive membership inference attacks in federated learning against "
    "overparameterized models, ICLR 2023.",
)
class GradientAlignment(MembershipAttack):
    r"""Judge examples to be members whose own gradient is aligned with the update.

    $$ \cos(-\nabla \ell(x; w), \Delta) $$

    Adam's updates do not depend on the gradient's scale in each coordinate, so it is removed from the examples'
    gradients too: each coordinate is divided by its root mean square over the suspects.
    """

    def conversion(self, task: Task) -> str:
        if task.optimizer == "adam":
            return "Adam: examples' gradients divided by their root mean square, coordinate by coordinate, as Adam does"
        return "SGD: the change as it is, since a cosine needs no scale; of several steps it is the sum of gradients"

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        import torch
        from torch.nn import functional as F

        direction = torch.from_numpy(np.ascontiguousarray(update[server.examine.columns.parameters]))
        direction = direction.to(server.examine.device)
        scale = server.examine.spread(server.before, suspects) if server.task.optimizer == "adam" else 1.0
        cosines = [
            F.cosine_similarity(-gradients / scale, direction[None])
            for gradients in server.examine.gradients(server.before, suspects)
        ]
        return torch.cat(cosines)
