"""Membership inference by the improvement of the loss in training.

The global model takes the place of reference models trained without the example, as in Watson et al., On the importance
of difficulty calibration in membership inference attacks, ICLR 2022.
"""

from typing import TYPE_CHECKING

from fflbench.privacy.membership import MembershipAttack, Server
from fflbench.registration import privacy_attack
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("loss-difference", title="Loss difference", knows=["server view"])
class LossDifference(MembershipAttack):
    r"""Judge examples to be members whose loss the update reduced: $\ell(x; w) - \ell(x; w + \Delta)$."""

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        before, after = (server.examine.losses(weights, suspects) for weights in (server.before, server.after(update)))
        return before - after
