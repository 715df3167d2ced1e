"""Seconds that a round's messages take on a network.

As in the FFL paper, messages from the server take the participant's download speed, and all others, exchanges between
participants included, its upload speed; each message costs one latency.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fflbench.plugin import Direction

BITS = 8
MEGA = 10**6


@dataclass(frozen=True)
class NetworkSpeed:
    """Speed of a participant's connection."""

    download: float
    """Megabits per second."""
    upload: float
    latency: float
    """Milliseconds."""


@dataclass(frozen=True)
class CommunicationSeconds:
    """Seconds of a participant's communication, by part."""

    server: float
    """Seconds to and from the server."""
    between: float
    """Seconds to and from other participants."""
    latency: float

    @property
    def total(self) -> float:
        """Return the sum of all parts."""
        return self.server + self.between + self.latency


def communication_seconds(
    network: NetworkSpeed, sizes: Mapping[Direction, float], messages: Mapping[Direction, float]
) -> CommunicationSeconds:
    """Return the seconds that one participant's bytes and messages take: down, up and between."""
    down, up = network.download * MEGA / BITS, network.upload * MEGA / BITS
    return CommunicationSeconds(
        server=sizes["down"] / down + sizes["up"] / up,
        between=sizes["between"] / up,
        latency=sum(messages.values()) * network.latency / 1000,
    )


def brea_bytes(model_bytes: float, participants: int) -> dict[Direction, float]:
    """Return the bytes of a participant in BREA (So et al., 2020) by the FFL paper's formula.

    In Byzantine-resilient secure federated learning a participant downloads the model, uploads its distances to all
    others and the aggregated shares, and exchanges a share of a model's size with all others.
    """
    return {
        "down": model_bytes,
        "up": model_bytes + 4 * participants,
        "between": 2 * model_bytes * participants,
    }


def brea_seconds(network: NetworkSpeed, model_bytes: float, participants: int) -> CommunicationSeconds:
    """Return the seconds of BREA by the FFL paper's formula."""
    sizes = brea_bytes(model_bytes, participants)
    return communication_seconds(network, sizes, {"down": 1, "up": 2, "between": 2 * participants})
