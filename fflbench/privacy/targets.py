"""How a server turns what it sees of a round into updates to attack.

Each way says what it must know, and whether it was made with an exchange of fragments in mind: a claim of privacy
counts only against an attacker who knows the defense.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fflbench.federation import Defense, ServerView
from fflbench.kernels import weighted_mean
from fflbench.types import Vector


@dataclass(frozen=True)
class Look:
    """One update to attack, and whose examples are behind it."""

    update: Vector
    """The mean change of the model over those people."""
    people: tuple[int, ...]
    """Whom the core scores it against."""


@dataclass(frozen=True)
class Seen:
    """What the server has, and beside it what only an oracle could tell."""

    view: ServerView
    people: Sequence[int]
    """Everybody who was selected."""
    partners: Mapping[int, int]
    """Who exchanged with whom: the oracle's."""

    def row(self, who: int) -> Vector:
        """What a pseudonym sent."""
        row: Vector = self.view.updates[self.view.participants.tolist().index(who)]
        return row


@dataclass(frozen=True)
class Target:
    """A way to look."""

    meaning: str
    knows: tuple[str, ...]
    look: Callable[[Seen], list[Look]]
    applies: Callable[[Defense], bool] = lambda _: True
    adaptive: bool = False
    """Whether it takes an exchange of fragments into account."""


def _own(seen: Seen) -> list[Look]:
    return [Look(row, (int(who),)) for who, row in zip(seen.view.participants, seen.view.updates, strict=True)]


def _pair_sum(seen: Seen) -> list[Look]:
    # Mixing moves coordinates between two rows and so keeps their sum.
    pairs = sorted({(min(pair), max(pair)) for pair in seen.partners.items()})
    return [Look((seen.row(one) + seen.row(other)) / np.float32(2), (one, other)) for one, other in pairs]


def _aggregate(seen: Seen) -> list[Look]:
    return [Look(weighted_mean(seen.view.updates, seen.view.sizes), tuple(seen.people))]


TARGETS = {
    "own": Target(
        "what a pseudonym sent, taken for that participant's update (the FFL paper's evaluation)",
        ("server view",),
        _own,
        applies=lambda defense: not defense.hides_senders,
    ),
    "pair-sum": Target(
        "the sum of what two partners sent, pairs told by an oracle: an upper bound",
        ("server view", "who exchanged with whom"),
        _pair_sum,
        applies=lambda defense: defense.exchanges,
        adaptive=True,
    ),
    "aggregate": Target(
        "the average of the round and nothing else: what secure aggregation would leave",
        ("server view",),
        _aggregate,
        adaptive=True,
    ),
}
