"""Ledger of a round's messages, counted in bytes as they are sent."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal, TypeAlias

from fflbench.federation.messages import SECOND_SERVER, SERVER, Message, Part

Way: TypeAlias = Literal["down", "up", "between"]
"""From a server to a participant, from a participant to a server, or from one participant to another."""

SERVERS = (SERVER, SECOND_SERVER)


class Ledger:
    """Bytes by way and kind, and the messages that each cost a latency."""

    def __init__(self) -> None:
        self.bytes: dict[Way, Counter[str]] = {"down": Counter(), "up": Counter(), "between": Counter()}
        self.messages: Counter[Way] = Counter()
        self.between_servers: Counter[str] = Counter()
        """Bytes by kind from one server to another, which cost no participant anything."""
        self.kinds: dict[str, Part] = {}
        """Declarations of the kinds that were sent."""

    def enter(self, message: Message) -> None:
        """Count a message."""
        sent, received = message.sender in SERVERS, message.receiver in SERVERS
        way: Way = "down" if sent else "up" if received else "between"
        sizes = self.between_servers if sent and received else self.bytes[way]
        for part, size in message.sizes().items():
            self.kinds[part.kind] = part
            sizes[part.kind] += size
        self.messages[way] += not (message.rides_along or (sent and received))

    def by_kind(self) -> dict[str, int]:
        """Return the bytes of each kind, whatever their way."""
        return dict(sum(self.bytes.values(), self.between_servers))

    def per_participant(self, participants: int) -> tuple[dict[Way, Mapping[str, float]], dict[Way, float]]:
        """Return bytes and messages of an average participant; what goes between two counts for both."""
        share: dict[Way, float] = {"down": 1 / participants, "up": 1 / participants, "between": 2 / participants}
        sizes = {way: {kind: size * share[way] for kind, size in kinds.items()} for way, kinds in self.bytes.items()}
        return dict(sizes), {way: self.messages[way] * share[way] for way in share}
