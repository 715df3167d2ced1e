"""Yeom et al., Privacy risk in machine learning: analyzing the connection to overfitting, IEEE CSF 2018."""

from typing import TYPE_CHECKING

from fflbench.privacy.membership import MembershipAttack, Server
from fflbench.registration import privacy_attack
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("loss-threshold", title="Loss threshold", knows=["server view"])
class LossThreshold(MembershipAttack):
    r"""Judge examples to be members whose loss is low after the update: $-\ell(x; w + \Delta)$."""

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        return -server.examine.losses(server.after(update), suspects)
