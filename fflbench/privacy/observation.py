"""Contract of observations: how a coalition of parties turns what it sees of a round into updates to attack.

Each declares what the coalition must know, and whether it takes the transport into account: a claim of privacy counts
only against an attacker who knows the defense.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fflbench.federation import ObservedUpdates, ParticipantView, Transcript, Transport, View

if TYPE_CHECKING:
    from torch import nn

NOTHING = "no update reached the server, or none was finite, so there is nothing to attack"


@dataclass(frozen=True)
class Coalition:
    """Pooled knowledge of the parties in a coalition: their views of a round, and what is public."""

    server: View
    people: Sequence[int]
    """All selected participants."""
    linear: Sequence[str]
    """Names of the weights of the model's linear layers."""
    transport: type[Transport]
    """The protocol, without any secrets."""
    participants: Mapping[int, ParticipantView] = field(default_factory=dict)
    """Views of participants, for observations that declare them."""
    servers: Mapping[str, View] = field(default_factory=dict)
    """Views of further servers, for observations that declare them."""


class Observation:
    """A way to turn a coalition's view into updates to attack."""

    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that the coalition needs; set by the decorator that registers it."""
    adaptive: ClassVar[bool] = False
    """Whether it takes the transport into account (an adaptive attack)."""
    caution: ClassVar[str] = ""
    """Word that tables add as a caution."""
    participants: ClassVar[bool] = False
    """Whether participants belong to the coalition, or an oracle reveals what they know."""
    servers: ClassVar[tuple[str, ...]] = ()
    """Further servers that belong to the coalition, beside the one on which the rule runs."""
    needs_linear_layer: ClassVar[bool] = False

    def applies(self, transport: Transport) -> bool:
        """Whether it makes sense for a transport."""
        return True

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        """Return updates to attack."""
        raise NotImplementedError

    def score(self, observed: ObservedUpdates, transcript: Transcript) -> dict[str, float]:
        """Return the observation's own metrics, such as pair_accuracy; empty for most."""
        return {}


def watched(observation: Observation, people: Collection[int]) -> Collection[int]:
    """Return the participants whose views an observation or its scoring needs."""
    scored = type(observation).score is not Observation.score
    return people if observation.participants or scored else ()


def observe(
    observation: Observation, transport: Transport, transcript: Transcript, people: Sequence[int], linear: Sequence[str]
) -> list[ObservedUpdates]:
    """Return the updates that an observation gives for a round, from the views that it declares and nothing more."""
    if not len(transcript.server.rows):
        return []
    participants = transcript.participants if observation.participants else {}
    servers = {name: view for name, view in transcript.servers.items() if name in observation.servers}
    coalition = Coalition(transcript.server, people, linear, type(transport), participants, servers)
    return observation.observe(coalition)


def linear_layers(model: "nn.Module") -> list[str]:
    """Return the names of the weights of linear layers."""
    from torch import nn

    return [f"{name}.weight".lstrip(".") for name, module in model.named_modules() if isinstance(module, nn.Linear)]
