"""The server's view under secure aggregation, without its protocol (Bonawitz et al., CCS 2017)."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from fflbench.plugin import Rows, Transcript, Transport, Upload, transport, weighted_mean


@transport("ideal-secagg", title="Ideal secure aggregation")
class IdealSecAgg(Transport):
    """Let the server see the average by examples and nothing else, as a reference for transports that hide updates.

    No single update can be judged, so no participant is excluded, and an update that is not finite ruins the round.
    """

    rows: ClassVar[Rows] = "sum"

    @property
    def simulated_part(self) -> str:
        return "the whole protocol: it is an ideal"

    def transmit(self, upload: Upload) -> Transcript:
        transcript = self.submitted(upload)
        view = transcript.server
        with np.errstate(over="ignore", invalid="ignore"):
            mean = weighted_mean(view.rows, view.weights)
        total = np.array([view.weights.sum()])
        transcript.server = replace(view, rows=mean[None], weights=total, sizes=total, participants=None)
        return transcript
