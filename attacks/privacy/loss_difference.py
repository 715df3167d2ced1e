"""Membership inference by the improvement of the loss in training.

The global model takes the place of reference models trained without the example, as in Watson et al., On the importance
of difficulty calibration in membership inference attacks, ICLR 2022.
"""

from typing import TYPE_CHECKING

from fflbench.plugin import Indices, MembershipAttack, MembershipObserver, Vector, privacy_attack

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("loss-difference", title="Loss difference", knows=["server view"])
class LossDifference(MembershipAttack):
    r"""Judge examples to be members whose loss the update reduced: $\ell(x; w) - \ell(x; w + \Delta)$."""

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        before, after = (
            observer.signals.losses(weights, candidates)
            for weights in (observer.weights, observer.weights_after(update))
        )
        return before - after
