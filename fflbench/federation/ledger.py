"""Ledger of a round's messages, counted in bytes as they are sent."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal, TypeAlias

from fflbench.federation.messages import SECOND_SERVER, SERVER, Message, MessagePart

Direction: TypeAlias = Literal["down", "up", "between"]
"""Direction of a message: server to participant, participant to server, or participant to participant."""

SERVERS = (SERVER, SECOND_SERVER)


class Ledger:
    """Bytes by direction and kind, and the number of messages that each cost one latency."""

    def __init__(self) -> None:
        self.bytes: dict[Direction, Counter[str]] = {"down": Counter(), "up": Counter(), "between": Counter()}
        self.messages: Counter[Direction] = Counter()
        self.between_servers: Counter[str] = Counter()
        """Bytes by kind from one server to another, which cost participants nothing."""
        self.kinds: dict[str, MessagePart] = {}
        """Declarations of the kinds of all messages sent."""

    def add(self, message: Message, times: int = 1) -> None:
        """Count a message, or as many of its kind and size to or from different participants."""
        sent, received = message.sender in SERVERS, message.receiver in SERVERS
        direction: Direction = "down" if sent else "up" if received else "between"
        sizes = self.between_servers if sent and received else self.bytes[direction]
        for part, size in message.sizes().items():
            self.kinds[part.kind] = part
            sizes[part.kind] += times * size
        self.messages[direction] += times * (not (message.rides_along or (sent and received)))

    def by_kind(self) -> dict[str, int]:
        """Return the bytes of each kind, in all directions together."""
        return dict(sum(self.bytes.values(), self.between_servers))

    def per_participant(self, participants: int) -> tuple[dict[Direction, Mapping[str, float]], dict[Direction, float]]:
        """Return bytes and messages of an average participant; a message between two participants counts for both."""
        share: dict[Direction, float] = {"down": 1 / participants, "up": 1 / participants, "between": 2 / participants}
        sizes = {
            direction: {kind: size * share[direction] for kind, size in kinds.items()}
            for direction, kinds in self.bytes.items()
        }
        return dict(sizes), {direction: self.messages[direction] * share[direction] for direction in share}
