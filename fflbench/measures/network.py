"""How long a round's messages take on a network.

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
    """Megabits a second."""
    upload: float
    latency: float
    """Milliseconds."""


@dataclass(frozen=True)
class Seconds:
    """Where a participant's time goes."""

    server: float
    """To and from the server."""
    between: float
    """To and from other participants."""
    latency: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.server + self.between + self.latency


def time_taken(network: Network, sizes: Mapping[Way, float], messages: Mapping[Way, float]) -> Seconds:
    """What bytes and messages of one participant take: down, up and between."""
    down, up = network.download * MEGA / BITS, network.upload * MEGA / BITS
    return Seconds(
        server=sizes["down"] / down + sizes["up"] / up,
        between=sizes["between"] / up,
        latency=sum(messages.values()) * network.latency / 1000,
    )


def brea(network: Network, model: float, participants: int) -> Seconds:
    """BREA (So et al., Byzantine-resilient secure federated learning, 2020) by the FFL paper's formula.

    A participant downloads the model, uploads its distances to all others and the aggregated shares, and exchanges a
    share of a model's size with everybody; `model` is in bytes.
    """
    sizes: dict[Way, float] = {"down": model, "up": model + 4 * participants, "between": 2 * model * participants}
    return time_taken(network, sizes, {"down": 1, "up": 2, "between": 2 * participants})
