"""Observations that make sense for many transports: a single submission, the sum, and a colluding participant."""

from typing import ClassVar

import numpy as np

from fflbench.arrays.kernels import weighted_mean
from fflbench.federation import ObservedUpdates, Transport
from fflbench.privacy.observation import Coalition, Observation
from fflbench.registration import observation


@observation("submission", title="Submission", knows=["server view"])
class Submission(Observation):
    """Take a row that a participant submitted for that participant's update."""

    def applies(self, transport: Transport) -> bool:
        return transport.rows in ("participant", "mixture")

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        view = coalition.server
        assert view.participants is not None
        # Copies: views are read-only, and torch takes only arrays that can be written to.
        sent = zip(view.participants.tolist(), view.rows, strict=True)
        return [ObservedUpdates((row.copy(),), (who,)) for who, row in sent]


@observation("sum", title="Sum", knows=["server view"])
class Sum(Observation):
    """Take the average of the round and nothing else: the view that secure aggregation leaves."""

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        view = coalition.server
        here = coalition.people if view.participants is None else view.participants.tolist()
        return [ObservedUpdates((weighted_mean(view.rows, view.weights) * np.float32(view.scale),), tuple(here))]


@observation("colluding-participant", title="Colluding participant", knows=["server view", "a participant's view"])
class ColludingParticipant(Observation):
    """Combine the server's view with that of one participant, who tells its own update and all it received."""

    adaptive: ClassVar[bool] = True
    caution: ClassVar[str] = "a participant colludes"
    participants: ClassVar[bool] = True

    def applies(self, transport: Transport) -> bool:
        return transport.rows != "participant"

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        server, people = coalition.server, coalition.people
        results = [coalition.transport.collude(server, who, own, people) for who, own in coalition.participants.items()]
        return [observed for of_one in results for observed in of_one]
