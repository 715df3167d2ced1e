"""The view that secure aggregation leaves, without its protocol (Bonawitz et al., CCS 2017)."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from fflbench.federation import Rows, Transcript, Transport, Upload
from fflbench.kernels import weighted_mean
from fflbench.registry import transport


@transport("ideal-secagg", title="Ideal secure aggregation")
class IdealSecAgg(Transport):
    """Let the server see the average by examples and nothing else: the yardstick for whatever hides updates.

    Nobody's update can be judged, so nobody is kept out, and one that is not finite spoils the round.
    """

    rows: ClassVar[Rows] = "sum"

    @property
    def leaves_out(self) -> str:
        return "the whole protocol: it is an ideal"

    def transmit(self, upload: Upload) -> Transcript:
        transcript = self.submitted(upload)
        view = transcript.server
        with np.errstate(over="ignore", invalid="ignore"):
            mean = weighted_mean(view.rows, view.weights)
        total = np.array([view.weights.sum()])
        transcript.server = replace(view, rows=mean[None], weights=total, sizes=total, participants=None)
        return transcript
