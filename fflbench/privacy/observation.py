"""Base class of observations, which turn a coalition's view of a round into updates to attack.

Each declares the knowledge that the coalition needs, and whether it is adaptive: a privacy claim must hold against an
attacker who knows the defense.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fflbench.federation import ObservedUpdates, ParticipantView, Transcript, Transport, View

if TYPE_CHECKING:
    from torch import nn

NO_OBSERVATION = "no update reached the server, or none was finite, so there is nothing to attack"
"""Reason why a round has no observation."""


@dataclass(frozen=True)
class Coalition:
    """Pooled knowledge of the parties in a coalition: their views of a round, and what is public."""

    server: View
    """View of the server on which the rule runs."""
    selected: Sequence[int]
    """All selected participants."""
    linear: Sequence[str]
    """Names of the weights of the model's linear layers."""
    transport: type[Transport]
    """The protocol, without any secrets."""
    participants: Mapping[int, ParticipantView] = field(default_factory=dict)
    """Views of participants, for observations that declare them."""
    servers: Mapping[str, View] = field(default_factory=dict)
    """Views of further servers, for observations that declare them."""
    later: Sequence["Coalition"] = ()
    """Its knowledge of later rounds of the same participants, for observations that declare several rounds."""


class Observation:
    """Observation of a round by a coalition of parties."""

    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that the coalition needs; set by the decorator that registers it."""
    adaptive: ClassVar[bool] = False
    """Whether it is adaptive: made with knowledge of the transport."""
    caution: ClassVar[str] = ""
    """Caution that tables add to its results."""
    participants: ClassVar[bool] = False
    """Whether participants belong to the coalition, or an oracle reveals what they know."""
    servers: ClassVar[tuple[str, ...]] = ()
    """Further servers that belong to the coalition, beside the one on which the rule runs."""
    needs_linear_layer: ClassVar[bool] = False
    """Whether the model must have a linear layer."""
    rounds: ClassVar[int] = 1
    """Number of rounds that it combines; the updates it returns are those of the first."""

    def applies_to(self, transport: Transport) -> bool:
        """Return whether it is defined for a transport."""
        return True

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        """Return updates to attack."""
        raise NotImplementedError

    def own_metrics(self, observed: ObservedUpdates, transcript: Transcript) -> dict[str, float]:
        """Return the observation's own metrics, such as pair_accuracy; empty for most."""
        return {}


def participants_to_watch(observation: Observation, selected: Collection[int]) -> Collection[int]:
    """Return the participants whose views an observation or its scoring needs."""
    scored = type(observation).own_metrics is not Observation.own_metrics
    return selected if observation.participants or scored else ()


def observe(
    observation: Observation,
    transport: Transport,
    transcript: Transcript,
    selected: Sequence[int],
    linear: Sequence[str],
    later: Sequence[Transcript] = (),
) -> list[ObservedUpdates]:
    """Return the updates that an observation extracts from a round, given only the views that it declares.

    `later` are transcripts of the rounds after it, which only observations of several rounds see.
    """
    if not len(transcript.server.rows):
        return []

    def seen(of_round: Transcript, later: Sequence[Coalition] = ()) -> Coalition:
        participants = of_round.participants if observation.participants else {}
        servers = {name: view for name, view in of_round.servers.items() if name in observation.servers}
        return Coalition(of_round.server, selected, linear, type(transport), participants, servers, later)

    return observation.observe(seen(transcript, [seen(each) for each in later[: observation.rounds - 1]]))


def linear_weight_names(model: "nn.Module") -> list[str]:
    """Return the names of the weights of linear layers."""
    from torch import nn

    return [f"{name}.weight".lstrip(".") for name, module in model.named_modules() if isinstance(module, nn.Linear)]
