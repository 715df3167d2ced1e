"""Seconds that a round's messages take on a network.

As in the FFL paper, what comes from the server takes the participant's download speed, and everything else, exchanges
between participants included, its upload speed; each message that travels by itself costs one latency.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fflbench.federation.ledger import Way

BITS = 8
MEGA = 1_000_000


@dataclass(frozen=True)
class Network:
    """A participant's connection."""

    download: float
    """Megabits per second."""
    upload: float
    latency: float
    """Milliseconds."""


@dataclass(frozen=True)
class Seconds:
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


def time_taken(network: Network, sizes: Mapping[Way, float], messages: Mapping[Way, float]) -> Seconds:
    """Return the seconds that one participant's bytes and messages take: down, up and between."""
    down, up = network.download * MEGA / BITS, network.upload * MEGA / BITS
    return Seconds(
        server=sizes["down"] / down + sizes["up"] / up,
        between=sizes["between"] / up,
        latency=sum(messages.values()) * network.latency / 1000,
    )


def brea(network: Network, model: float, participants: int) -> Seconds:
    """Return the seconds of BREA (So et al., 2020) by the FFL paper's formula.

    In Byzantine-resilient secure federated learning a participant downloads the model, uploads its distances to all
    others and the aggregated shares, and exchanges a share of a model's size with everybody; `model` is in bytes.
    """
    sizes: dict[Way, float] = {"down": model, "up": model + 4 * participants, "between": 2 * model * participants}
    return time_taken(network, sizes, {"down": 1, "up": 2, "between": 2 * participants})
