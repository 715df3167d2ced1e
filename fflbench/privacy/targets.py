"""How a server turns what it sees of a round into updates to attack.

Each way says what it must know, and whether it was made with an exchange of fragments in mind: a claim of privacy
counts only against an attacker who knows the defense.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fflbench.federation import Columns, Defense, ServerView
from fflbench.kernels import weighted_mean
from fflbench.privacy.unmixing import unmix
from fflbench.types import Indices, Matrix, Vector

if TYPE_CHECKING:
    from torch import nn

TIE_BREAK = 1e-3
NOTHING = "nobody found a partner, or nobody's update was finite, so there is nothing to attack"


@dataclass(frozen=True)
class Look:
    """Updates to attack, and whose examples are behind them."""

    updates: tuple[Vector, ...]
    """Each the mean change of the model over as many people as the others."""
    people: tuple[int, ...]
    """Whom the core scores them against, all together."""
    layer: str = ""
    """The weights that were separated, with their bias, where only one layer was."""
    owners: npt.NDArray[np.bool_] | None = None
    """For that layer's columns: whether what the first of the people sent is in the first update; if it was told."""


PAIRS = "who exchanged with whom"
TRAITOR = "one participant's update and partner"


@dataclass(frozen=True)
class Seen:
    """What the server has, and beside it what only others could tell it, where a target declares that."""

    view: ServerView
    people: Sequence[int]
    """Everybody who was selected."""
    linear: Sequence[str] = ()
    """The weights of the model's linear layers; a model is public."""
    partners: Mapping[int, int] = field(default_factory=dict)
    """Who exchanged with whom: an oracle's, or a traitor's."""
    brought: Mapping[int, Vector] = field(default_factory=dict)
    """What traitors had before any exchange."""
    held: Mapping[int, int] = field(default_factory=dict)
    """How many examples traitors hold."""

    def row(self, who: int) -> Vector:
        """What a pseudonym sent."""
        row: Vector = self.view.updates[self.view.participants.tolist().index(who)]
        return row

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Who exchanged with whom, each pair once, where both submissions are there."""
        here = set(self.view.participants.tolist())
        return sorted({(min(pair), max(pair)) for pair in self.partners.items() if here.issuperset(pair)})


@dataclass(frozen=True)
class Target:
    """A way to look."""

    meaning: str
    knows: tuple[str, ...]
    look: Callable[[Seen], list[Look]]
    applies: Callable[[Defense], bool] = lambda _: True
    adaptive: bool = False
    """Whether it takes an exchange of fragments into account."""
    caution: str = ""
    """What tables must say of it in a word."""
    finds_pairs: bool = False
    """Whether it has to find out who exchanged with whom."""


def _own(seen: Seen) -> list[Look]:
    return [Look((row,), (int(who),)) for who, row in zip(seen.view.participants, seen.view.updates, strict=True)]


def _pair_sum(seen: Seen) -> list[Look]:
    return _sums(seen, seen.pairs)


def _found_pair_sum(seen: Seen) -> list[Look]:
    return _sums(seen, find_pairs(seen.view, seen.linear))


def _sums(seen: Seen, pairs: list[tuple[int, int]]) -> list[Look]:
    # Mixing moves coordinates between two rows and so keeps their sum.
    return [Look(((seen.row(one) + seen.row(other)) / np.float32(2),), (one, other)) for one, other in pairs]


def find_pairs(view: ServerView, layers: Sequence[str]) -> list[tuple[int, int]]:
    """Who exchanged with whom, from what they sent.

    A linear layer's gradient of b examples has rank b at most, so the sum over two partners, whose fragments are all
    there, has rank 2b, and their coordinate-wise product b squared; with anybody else fragments do not fit together.
    The pairs are those whose sums and products leave least beyond these ranks, all pairs together.
    """
    import networkx

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


def _unmixed(seen: Seen) -> list[Look]:
    shapes = seen.view.columns.shapes
    largest = max(seen.linear, key=lambda name: np.prod(shapes[name]))
    return [_separated(seen, pair, largest) for pair in find_pairs(seen.view, seen.linear)]


def layer_columns(columns: Columns, layer: str) -> npt.NDArray[np.intp]:
    """Where a layer's weights stand, a row of them an output, its bias, if any, as their last column."""
    found = np.arange(columns.count)[columns.spans[layer]].reshape(columns.shapes[layer])
    bias = columns.spans.get(f"{layer.removesuffix('weight')}bias")
    return found if bias is None else np.column_stack([found, np.arange(columns.count)[bias]])


def _separated(seen: Seen, pair: tuple[int, int], layer: str) -> Look:
    """Two partners' updates, told apart in one layer; elsewhere both are their mean, which nobody attacks."""
    one, other = (seen.row(who) for who in pair)
    mean = (one + other) / np.float32(2)
    places = layer_columns(seen.view.columns, layer)
    a, b = (row[places].astype(np.float64) for row in (one, other))
    sizes = dict(zip(seen.view.participants.tolist(), seen.view.sizes.tolist(), strict=True))
    owners = unmix(a, b, sizes[pair[0]] + sizes[pair[1]])
    # Where ranks tell nothing, each keeps what it sent.
    chosen = np.ones(places.shape, bool) if owners is None else owners
    first, second = mean.copy(), mean.copy()
    first[places], second[places] = np.where(chosen, a, b), np.where(chosen, b, a)
    return Look((first, second), pair, layer, owners)


def _colluding(seen: Seen) -> list[Look]:
    """With one participant, who tells its own update and partner: the first of a pair, or of all."""
    if seen.partners:
        return [_exposed(seen, one, other) for one, other in seen.pairs]
    traitor, others = seen.people[0], tuple(seen.people[1:])
    sizes, mean = seen.view.sizes.astype(np.float64), seen.view.updates.astype(np.float64)
    total = (sizes[:, None] * mean).sum(0)
    own = seen.held[traitor]
    rest = (total - own * seen.brought[traitor]) / (sizes.sum() - own)
    return [Look((rest.astype(np.float32),), others)]


def _exposed(seen: Seen, traitor: int, victim: int) -> Look:
    # Whatever the traitor sent that is not its own came from its partner, who has the traitor's in its place.
    sent = seen.row(traitor)
    kept = sent.view(np.uint32) == np.ascontiguousarray(seen.brought[traitor]).view(np.uint32)
    return Look((np.where(kept, seen.row(victim), sent),), (victim,))


def _aggregate(seen: Seen) -> list[Look]:
    # Nobody's name stands on an average that hides its senders: then it is everybody's.
    here = [who for who in seen.view.participants.tolist() if who in seen.people] or seen.people
    return [Look((weighted_mean(seen.view.updates, seen.view.sizes),), tuple(here))]


def _exchanges(defense: Defense) -> bool:
    return defense.exchanges


TARGETS = {
    "own": Target(
        "what a pseudonym sent, taken for that participant's update (the FFL paper's evaluation)",
        ("server view",),
        _own,
        applies=lambda defense: not defense.hides_senders,
    ),
    "pair-sum": Target(
        "the sum of what two partners sent, pairs told by an oracle: an upper bound",
        ("server view", PAIRS),
        _pair_sum,
        applies=_exchanges,
        adaptive=True,
        caution="upper bound",
    ),
    "found-pair-sum": Target(
        "the same, with pairs found by the server: only theirs add up to a matrix of low rank in linear layers",
        ("server view",),
        _found_pair_sum,
        applies=_exchanges,
        adaptive=True,
        finds_pairs=True,
    ),
    "unmixed": Target(
        "two partners' largest linear layer with the mask undone, pairs found by the server: rank tells whose is whose",
        ("server view",),
        _unmixed,
        applies=_exchanges,
        adaptive=True,
        finds_pairs=True,
    ),
    "colluding": Target(
        "together with one participant, who tells its own update: the other partner's update, or the rest of a sum",
        ("server view", TRAITOR),
        _colluding,
        applies=lambda defense: defense.exchanges or defense.hides_senders,
        adaptive=True,
        caution="outside the paper's model",
    ),
    "aggregate": Target(
        "the average of the round and nothing else: what secure aggregation would leave",
        ("server view",),
        _aggregate,
    ),
}


def looks(
    target: str, defense: Defense, view: ServerView, selected: Indices, updates: Matrix, linear: Sequence[str]
) -> list[Look]:
    """Look in one of these ways, with what it says it must know, and nothing more; updates are what training gave."""
    if not len(view.updates):
        return []
    way, people = TARGETS[target], selected.tolist()
    partners: Mapping[int, int] = getattr(defense, "partner", {})
    traitors = np.array(sorted({min(pair) for pair in partners.items()} or {people[0]}))
    told: dict[int, Vector] = {}
    if TRAITOR in way.knows:
        rows = defense.brought(updates[np.searchsorted(selected, traitors)], traitors, view.weights)
        told = dict(zip(traitors.tolist(), rows, strict=True))
    return way.look(
        Seen(
            view,
            people,
            linear,
            partners if {PAIRS, TRAITOR} & set(way.knows) else {},
            told,
            {who: int(defense.setting.sizes[who]) for who in told},
        )
    )


def linear_layers(model: "nn.Module") -> list[str]:
    """The names of the weights of linear layers."""
    from torch import nn

    return [f"{name}.weight".lstrip(".") for name, module in model.named_modules() if isinstance(module, nn.Linear)]
