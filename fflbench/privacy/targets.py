"""How a server turns what it sees of a round into updates to attack.

Each way says what it must know, and whether it was made with an exchange of fragments in mind: a claim of privacy
counts only against an attacker who knows the defense.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fflbench.federation import Defense, ServerView
from fflbench.kernels import weighted_mean
from fflbench.types import Vector

TIE_BREAK = 1e-3


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


def _found_pair_sum(seen: Seen) -> list[Look]:
    return [
        Look((seen.row(one) + seen.row(other)) / np.float32(2), (one, other)) for one, other in find_pairs(seen.view)
    ]


def find_pairs(view: ServerView) -> list[tuple[int, int]]:
    """Who exchanged with whom, from what they sent.

    A linear layer's gradient of b examples has rank b at most, so the sum over two partners, whose fragments are all
    there, has rank 2b, and their coordinate-wise product b squared; with anybody else fragments do not fit together.
    The pairs are those whose sums and products leave least beyond these ranks, all pairs together.
    """
    import networkx

    layers = [name for name, shape in view.columns.shapes.items() if len(shape) == 2]
    graph = networkx.Graph()
    for one, other in itertools.combinations(range(len(view.participants)), 2):
        a, b = view.updates[one].astype(np.float64), view.updates[other].astype(np.float64)
        sizes = int(view.sizes[one]), int(view.sizes[other])
        left = 0.0
        for name in layers:
            span, shape = view.columns.spans[name], view.columns.shapes[name]
            left += beyond((a + b)[span].reshape(shape), sum(sizes))
            # Where the sum may have any rank, the product decides.
            left += TIE_BREAK * beyond((a * b)[span].reshape(shape), sizes[0] * sizes[1])
        graph.add_edge(int(view.participants[one]), int(view.participants[other]), weight=left)
    pairs = networkx.min_weight_matching(graph)
    return sorted((min(pair), max(pair)) for pair in pairs)


def beyond(matrix: npt.NDArray[np.float64], rank: int) -> float:
    """The share of a matrix that no matrix of that rank can have, by squares."""
    energy = np.linalg.svd(matrix, compute_uv=False) ** 2
    return float(energy[rank:].sum() / energy.sum()) if energy.any() else 0.0


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
    "found-pair-sum": Target(
        "the same, with pairs found by the server: only theirs add up to a matrix of low rank in linear layers",
        ("server view",),
        _found_pair_sum,
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
