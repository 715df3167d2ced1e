"""The largest submission of a round. An example."""

import numpy as np

from fflbench.plugin import Coalition, Observation, ObservedUpdates, Transport, observation


@observation("largest-submission", title="Largest submission", knows=["server view"])
class LargestSubmission(Observation):
    """Take the submission with the largest norm for its sender's update."""

    def applies_to(self, transport: Transport) -> bool:
        return transport.rows == "participant"

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        view = coalition.server
        assert view.participants is not None
        place = np.linalg.norm(view.rows, axis=1).argmax()
        return [ObservedUpdates((view.rows[place],), (int(view.participants[place]),))]
