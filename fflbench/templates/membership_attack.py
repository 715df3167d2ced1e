"""Membership inference by confidence. An example."""

from typing import TYPE_CHECKING

from fflbench.plugin import Indices, MembershipAttack, MembershipObserver, Vector, privacy_attack

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("high-confidence", title="High confidence", knows=["server view"])
class HighConfidence(MembershipAttack):
    """Score examples by the confidence of the model after the update."""

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        return observer.signals.logit_confidences(observer.weights_after(update), candidates)
