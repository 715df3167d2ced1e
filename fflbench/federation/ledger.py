"""Which messages a round takes, counted in bytes as they are sent."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fflbench.crypto.messages import SERVER, Bytes, Message

Way: TypeAlias = Literal["down", "up", "between"]
"""From the server to a participant, from a participant to the server, or from one participant to another."""


@dataclass(frozen=True, repr=False)
class GlobalModel(Message):
    """What every selected participant starts from."""

    KIND = 6
    COUNTED_AS = {"weights": "global model"}  # noqa: RUF012

    weights: Bytes


@dataclass(frozen=True, repr=False)
class Update(Message):
    """A participant's update as it is."""

    KIND = 7
    COUNTED_AS = {"update": "update"}  # noqa: RUF012

    update: Bytes


class Ledger:
    """Bytes by way and kind, and the messages that each cost a latency."""

    def __init__(self) -> None:
        self.bytes: dict[Way, Counter[str]] = {"down": Counter(), "up": Counter(), "between": Counter()}
        self.messages: Counter[Way] = Counter()

    def enter(self, message: Message) -> None:
        """Count a message."""
        way: Way = "down" if message.sender == SERVER else "up" if message.receiver == SERVER else "between"
        self.bytes[way].update(message.sizes())
        self.messages[way] += not message.rides_along

    def per_participant(self, participants: int) -> tuple[dict[Way, Mapping[str, float]], dict[Way, float]]:
        """Bytes and messages that an average participant sends or receives; between two, each counts for both."""
        share: dict[Way, float] = {"down": 1 / participants, "up": 1 / participants, "between": 2 / participants}
        sizes = {way: {kind: size * share[way] for kind, size in kinds.items()} for way, kinds in self.bytes.items()}
        return dict(sizes), {way: self.messages[way] * share[way] for way in share}
