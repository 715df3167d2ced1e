"""Observations of several rounds of fragment exchange: sums of changing pairs separate into single updates."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fflbench.plugin import Coalition, Observation, ObservedUpdates, Transcript, Transport, observation

from .observations import Pair, infer_pairs_by_rank, true_pairs
from .pair_sum_graph import separate_pair_sums
from .transport import FragmentExchange


class _SeveralRounds(Observation):
    adaptive: ClassVar[bool] = True
    rounds: ClassVar[int] = 4

    def applies_to(self, transport: Transport) -> bool:
        return isinstance(transport, FragmentExchange)

    def pairs(self, coalition: Coalition) -> Sequence[Pair]:
        """Return who exchanged with whom in one round."""
        raise NotImplementedError

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        edges: list[Pair] = []
        sums, first = [], 0
        for of_round in (coalition, *coalition.later):
            view = of_round.server
            assert view.participants is not None
            row = {who: place for place, who in enumerate(view.participants.tolist())}
            for pair in self.pairs(of_round):
                edges.append(pair)
                sums.append(sum(view.rows[row[who]].astype(np.float64) for who in pair))
            first = first or len(edges)
        if not edges:
            return []
        people, updates, determined = separate_pair_sums(edges, np.stack(sums), first)
        return [
            ObservedUpdates((update.astype(np.float32),), (who,), determined=known)
            for who, update, known in zip(people.tolist(), updates, determined.tolist(), strict=True)
        ]

    def own_metrics(self, observed: ObservedUpdates, transcript: Transcript) -> dict[str, float]:
        (who,), (estimate,) = observed.participants, observed.updates
        own = transcript.participants[who].update
        everybody = np.mean([view.update for view in transcript.participants.values()], axis=0)
        length = float(np.linalg.norm(own))
        if not 0 < length < np.inf:
            return {"determined": float(observed.determined)}
        return {
            "determined": float(observed.determined),
            "update_error": float(np.linalg.norm(estimate - own)) / length,
            "floor_update_error": float(np.linalg.norm(everybody - own)) / length,
        }


@observation("pair-sums-of-rounds", title="Pair sums of rounds", knows=["server view", "who exchanged with whom"])
class PairSumsOfRounds(_SeveralRounds):
    """Separate sums of partners, whom an oracle names, over four rounds: an upper bound.

    Sums are edges of a graph over participants; an odd cycle determines all updates of its component, as far as they do
    not change from round to round.
    """

    caution: ClassVar[str] = "upper bound"
    participants: ClassVar[bool] = True

    def pairs(self, coalition: Coalition) -> Sequence[Pair]:
        return true_pairs(coalition.server, coalition.participants)


@observation("found-pair-sums-of-rounds", title="Found pair sums of rounds", knows=["server view"])
class FoundPairSumsOfRounds(_SeveralRounds):
    """Separate sums of partners over four rounds, each round's partners found by the low rank of their sum."""

    needs_linear_layer: ClassVar[bool] = True

    def pairs(self, coalition: Coalition) -> Sequence[Pair]:
        return infer_pairs_by_rank(coalition.server, coalition.linear) if len(coalition.server.rows) else []
