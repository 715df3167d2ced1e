"""Yeom et al., Privacy risk in machine learning: analyzing the connection to overfitting, IEEE CSF 2018."""

from typing import TYPE_CHECKING

from fflbench.plugin import Indices, MembershipAttack, MembershipObserver, Vector, privacy_attack

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("loss-threshold", title="Loss threshold", knows=["server view"])
class LossThreshold(MembershipAttack):
    r"""Judge examples to be members whose loss is low after the update: $-\ell(x; w + \Delta)$."""

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        return -observer.signals.losses(observer.weights_after(update), candidates)
