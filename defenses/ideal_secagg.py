"""What secure aggregation would leave (Bonawitz et al., Practical secure aggregation, CCS 2017), not its protocol."""

from typing import ClassVar

import numpy as np

from fflbench.federation import Defense, Sent, ServerView
from fflbench.federation.defense import require_updates
from fflbench.kernels import weighted_mean
from fflbench.registry import defense
from fflbench.types import Indices, Vector

NOBODY = -1
"""The pseudonym of an average, which is nobody's."""


@defense("ideal-secagg", title="Ideal secure aggregation")
class IdealSecAgg(Defense):
    """Let the server see the average by examples and nothing else: the yardstick for whatever hides updates.

    Nobody's update can be judged, so nobody is kept out, and one that is not finite spoils the round.
    """

    aggregates_alone: ClassVar[bool] = False
    hides_senders: ClassVar[bool] = True

    @property
    def leaves_out(self) -> str:
        return "the whole protocol: it is an ideal"

    def transmit(self, round: int, weights: Vector, selected: Indices, sent: Sent) -> ServerView:
        view = super().transmit(round, weights, selected, sent)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = weighted_mean(view.updates, view.sizes)
        return ServerView(
            round=round,
            weights=weights,
            participants=np.array([NOBODY]),
            updates=mean[None],
            sizes=np.array([view.sizes.sum()]),
            columns=view.columns,
            selected=view.selected,
        )

    def aggregate(self, view: ServerView) -> Vector:
        require_updates(view)
        average: Vector = view.updates[0]
        return average
