"""Observations of a server that knows of fragment exchange: sums of partners, and masks that are undone.

Swapping coordinates keeps the sum over two partners, and low ranks of linear layers reveal who the partners are.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fflbench.plugin import (
    Coalition,
    Columns,
    Observation,
    ObservedUpdates,
    ParticipantView,
    Transcript,
    Transport,
    Vector,
    View,
    observation,
)

from .low_rank_unmixing import infer_owners_by_rank
from .transport import FragmentExchange

TIE_BREAK = 1e-3

Pair = tuple[int, int]


class _ExchangeObservation(Observation):
    adaptive: ClassVar[bool] = True

    def applies_to(self, transport: Transport) -> bool:
        return isinstance(transport, FragmentExchange)


@observation("pair-sum", title="Pair sum", knows=["server view", "who exchanged with whom"])
class PairSum(_ExchangeObservation):
    """Add up the submissions of two partners, whom an oracle names: an upper bound."""

    caution: ClassVar[str] = "upper bound"
    participants: ClassVar[bool] = True

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        return _pair_means(coalition.server, true_pairs(coalition.server, coalition.participants))


class _InferredPairsObservation(_ExchangeObservation):
    needs_linear_layer: ClassVar[bool] = True

    def own_metrics(self, observed: ObservedUpdates, transcript: Transcript) -> dict[str, float]:
        one, other = observed.participants
        if transcript.participants[one].extra.get("partner") != other:
            return {"pair_accuracy": 0.0}
        return {"pair_accuracy": 1.0, **_mask_accuracy(observed, transcript)}


@observation("found-pair-sum", title="Found pair sum", knows=["server view"])
class FoundPairSum(_InferredPairsObservation):
    """Add up the submissions of two partners, found by their sum: only theirs has low rank in linear layers."""

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        return _pair_means(coalition.server, infer_pairs_by_rank(coalition.server, coalition.linear))


@observation("unmixed", title="Unmixed", knows=["server view"])
class Unmixed(_InferredPairsObservation):
    """Find partners, and tell their updates apart in the largest linear layer: low rank tells whose entry is whose."""

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        view = coalition.server
        largest = max(coalition.linear, key=lambda name: np.prod(view.columns.shapes[name]))
        return [_unmix_layer(view, pair, largest) for pair in infer_pairs_by_rank(view, coalition.linear)]


def true_pairs(view: View, participants: Mapping[int, ParticipantView]) -> list[Pair]:
    """Return who exchanged with whom, each pair once, where both submissions are there."""
    assert view.participants is not None
    here = set(view.participants.tolist())
    partners = {who: seen.extra["partner"] for who, seen in participants.items() if "partner" in seen.extra}
    return sorted({(min(pair), max(pair)) for pair in partners.items() if here.issuperset(pair)})


def infer_pairs_by_rank(view: View, layers: Sequence[str]) -> list[Pair]:
    """Return who exchanged with whom, judged by their submissions.

    A linear layer's gradient of b examples has rank b at most, so the sum over two partners, whose fragments are all
    there, has rank 2b, and their coordinate-wise product b squared; with anybody else fragments do not fit together.
    The pairs are those whose sums and products leave least beyond these ranks, all pairs together.
    """
    import networkx

    assert view.participants is not None
    assert view.sizes is not None
    graph = networkx.Graph()
    for one, other in itertools.combinations(range(len(view.participants)), 2):
        a, b = view.rows[one].astype(np.float64), view.rows[other].astype(np.float64)
        sizes = int(view.sizes[one]), int(view.sizes[other])
        left = 0.0
        for name in layers:
            span, shape = view.columns.spans[name], view.columns.shapes[name]
            left += energy_beyond_rank((a + b)[span].reshape(shape), sum(sizes))
            # Where the sum may have any rank, the product decides.
            left += TIE_BREAK * energy_beyond_rank((a * b)[span].reshape(shape), sizes[0] * sizes[1])
        graph.add_edge(int(view.participants[one]), int(view.participants[other]), weight=left)
    pairs = networkx.min_weight_matching(graph)
    return sorted((min(pair), max(pair)) for pair in pairs)


def energy_beyond_rank(matrix: npt.NDArray[np.float64], rank: int) -> float:
    """Return the share of a matrix that no matrix of that rank can have, by squares."""
    energy = np.linalg.svd(matrix, compute_uv=False) ** 2
    return float(energy[rank:].sum() / energy.sum()) if energy.any() else 0.0


def layer_columns(columns: Columns, layer: str) -> npt.NDArray[np.intp]:
    """Return the columns of a layer's weights, one row per output, with its bias, if any, as the last of each."""
    weights = np.arange(columns.count)[columns.spans[layer]].reshape(columns.shapes[layer])
    bias = columns.spans.get(f"{layer.removesuffix('weight')}bias")
    return weights if bias is None else np.column_stack([weights, np.arange(columns.count)[bias]])


def _row_index(view: View, who: int) -> int:
    assert view.participants is not None
    return int(view.participants.tolist().index(who))


def _rows_of_pair(view: View, pair: Pair) -> tuple[Vector, Vector]:
    one, other = (view.rows[_row_index(view, who)] for who in pair)
    return one, other


def _pair_means(view: View, pairs: Sequence[Pair]) -> list[ObservedUpdates]:
    # An exchange moves coordinates between two rows and so keeps their sum.
    rows = [_rows_of_pair(view, pair) for pair in pairs]
    return [
        ObservedUpdates(((one + other) / np.float32(2),), pair) for pair, (one, other) in zip(pairs, rows, strict=True)
    ]


def _unmix_layer(view: View, pair: Pair, layer: str) -> ObservedUpdates:
    """Separate two partners' updates in one layer; elsewhere both are their mean, which is not attacked."""
    one, other = _rows_of_pair(view, pair)
    mean = (one + other) / np.float32(2)
    places = layer_columns(view.columns, layer)
    a, b = (row[places].astype(np.float64) for row in (one, other))
    assert view.sizes is not None
    owners = infer_owners_by_rank(a, b, sum(int(view.sizes[_row_index(view, who)]) for who in pair))
    # Where ranks reveal nothing, each keeps what it sent.
    chosen = np.ones(places.shape, bool) if owners is None else owners
    first, second = mean.copy(), mean.copy()
    first[places], second[places] = np.where(chosen, a, b), np.where(chosen, b, a)
    return ObservedUpdates((first, second), pair, layer, owners)


def _mask_accuracy(observed: ObservedUpdates, transcript: Transcript) -> dict[str, float]:
    """Return the share of entries whose owner is found, up to exchange of two partners, where their values differ."""
    if observed.owners is None:
        return {}
    view, places = transcript.server, layer_columns(transcript.server.columns, observed.layer)
    updates = (transcript.participants[who].update for who in observed.participants)
    sent, first, second = (row[places] for row in (view.rows[_row_index(view, observed.participants[0])], *updates))
    differ = first != second
    right = float(np.mean((sent == first)[differ] == observed.owners[differ])) if differ.any() else 1.0
    return {"mask_accuracy": max(right, 1 - right)}
