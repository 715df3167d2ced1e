"""Li, Li and Ribeiro, Effective passive membership inference attacks in federated learning against overparameterized
models, ICLR 2023.
"""

from typing import TYPE_CHECKING

import numpy as np

from fflbench.privacy.membership import MembershipAttack, Server
from fflbench.registry import privacy_attack
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("gradient-alignment", title="Gradient alignment", knows=["server view"])
class GradientAlignment(MembershipAttack):
    r"""Take examples for members whose own gradient points where the update went.

    $$ \cos(-\nabla \ell(x; w), \Delta) $$

    Of Adam's change the gradient's scale is gone in every coordinate, so it is taken off the examples' gradients too:
    each coordinate is divided by its root mean square over the suspects.
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
        found = [
            F.cosine_similarity(-gradients / scale, direction[None])
            for gradients in server.examine.gradients(server.before, suspects)
        ]
        return torch.cat(found)
