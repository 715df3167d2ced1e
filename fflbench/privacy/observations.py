"""Observations for many transports: a single submission, the sum, and a colluding participant."""

from typing import ClassVar

import numpy as np

from fflbench.plugin import Coalition, Observation, ObservedUpdates, Transport, observation, weighted_mean


@observation("submission", title="Submission", knows=["server view"])
class SubmissionObservation(Observation):
    """Take a row that a participant submitted for that participant's update."""

    def applies_to(self, transport: Transport) -> bool:
        return transport.rows in ("participant", "mixture")

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        view = coalition.server
        assert view.participants is not None
        # Copies: views are read-only, and torch takes only arrays that can be written to.
        sent = zip(view.participants.tolist(), view.rows, strict=True)
        return [ObservedUpdates((row.copy(),), (who,)) for who, row in sent]


@observation("sum", title="Sum", knows=["server view"])
class SumObservation(Observation):
    """Take the average of the round and nothing else: the view that secure aggregation leaves."""

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        view = coalition.server
        senders = coalition.selected if view.participants is None else view.participants.tolist()
        return [ObservedUpdates((weighted_mean(view.rows, view.weights) * np.float32(view.scale),), tuple(senders))]


@observation("colluding-participant", title="Colluding participant", knows=["server view", "a participant's view"])
class ColludingParticipantObservation(Observation):
    """Combine the server's view with that of one participant, who tells its own update and all it received."""

    adaptive: ClassVar[bool] = True
    caution: ClassVar[str] = "a participant colludes"
    participants: ClassVar[bool] = True

    def applies_to(self, transport: Transport) -> bool:
        return transport.rows != "participant"

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        server, selected = coalition.server, coalition.selected
        results = [
            coalition.transport.collude(server, who, own, selected) for who, own in coalition.participants.items()
        ]
        return [observed for of_one in results for observed in of_one]
