"""Fragmented federated learning. Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE
Transactions on Neural Networks and Learning Systems, 2022.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le, Lt

from fflbench.crypto.errors import ExchangeError
from fflbench.crypto.messages import Feedback
from fflbench.federation import Columns, ServerView
from fflbench.federation.defense import Setting, require_updates
from fflbench.kernels import row_norms, weighted_mean
from fflbench.randomness import stream
from fflbench.registry import defense
from fflbench.types import Indices, Matrix, Vector

from ._mixing import Mixing
from .median import median


@defense("ffl", title="FFL", tolerates="f <= n/5", version=2)
class FFL(Mixing):
    """Mix updates in pairs, score the mixed ones, and let reputations decide who is selected, asked and believed.

    docs/ffl.md tells where this differs from the paper's letter, and why; the literal choices are parameters.
    """

    alpha: Annotated[float, Ge(0), Le(1), "weight of magnitude against direction in a score"] = 0.2
    selection_size: Annotated[
        Literal["settled", "literal"], "select C K of the candidates, or the paper's C times the candidates"
    ] = "settled"
    acceptance: Annotated[
        Literal["settled", "literal"], "ask whoever is at the first quartile or above, or strictly above it"
    ] = "settled"
    normalise: Annotated[
        Literal["trust", "literal"], "divide by the sum of trusts, or whole models by the sum of examples (line 18)"
    ] = "trust"
    non_finite: Annotated[
        Literal["penalise", "spare"], "whether a row that is not finite costs its sender global reputation"
    ] = "penalise"
    warmup: Annotated[int, Ge(0), "first rounds with the median as aggregate, everybody selectable and accepted"] = 0
    explore: Annotated[float, Ge(0), Lt(1), "share of the selection that goes to those below the quartile"] = 0.0

    @property
    def sends_models(self) -> bool:
        """Line 18 needs whole models: with unequal sizes the server cannot tell how far each coordinate is scaled."""
        return self.normalise == "literal"

    def begin(self, setting: Setting) -> None:
        super().begin(setting)
        self.memory["global"] = np.zeros(setting.participants)
        self.memory["local"] = np.zeros((setting.participants, setting.participants))
        self.trust: dict[int, float] = {}
        self.round = 0

    def select(self, round: int) -> Indices:
        """Candidates are those at or above the first quartile of global reputation (Procedure 1)."""
        self.round, self.trust = round, {}
        reputation, wanted = self.memory["global"], self.setting.per_round
        below = np.flatnonzero(reputation < np.quantile(reputation, 0.25)) if round >= self.warmup else np.empty(0, int)
        candidates = np.setdiff1d(np.arange(self.setting.participants), below)
        if self.selection_size == "literal":
            wanted = max(wanted * len(candidates) // self.setting.participants, 2)
        else:
            # Pairs need an even number.
            wanted = max(min(wanted, len(candidates)) // 2 * 2, 2)
        wanted = min(wanted, len(candidates))
        rng = stream(self.setting.seed, "selection", round)
        others = min(math.floor(self.explore * wanted + 0.5), len(below))
        chosen = rng.choice(candidates, wanted - others, replace=False)
        return np.sort(np.concatenate([chosen, rng.choice(below, others, replace=False)]))

    def accepts(self, asked: int, asking: int, *, first: bool) -> bool:
        """At or above the first quartile of one's own local reputations, own entry left out."""
        if self.round < self.warmup:
            return True
        local = self.memory["local"][asked]
        quartile = np.quantile(np.delete(local, asked), 0.25)
        strictly = first and self.acceptance == "literal"
        return bool(local[asking] > quartile if strictly else local[asking] >= quartile)

    def aggregate(self, view: ServerView) -> Vector:
        """Score, update reputations, send feedback, and average by trust."""
        similarity = scores(view.updates, view.columns, self.alpha) if len(view.updates) else np.empty(0)
        # Without a single finite row there is no quartile: then any score falls short of the highest.
        quartile = np.quantile(similarity, 0.25) if len(similarity) else 1.0
        senders = np.concatenate([view.participants, view.dropped])
        # A row that is not finite is as unlike the others as can be.
        difference = np.concatenate([similarity, np.zeros(len(view.dropped))]) - quartile
        reputation = self.memory["global"]
        scored = len(senders) if self.non_finite == "penalise" else len(view.participants)
        reputation[senders[:scored]] += difference[:scored]
        self.deliver(
            view.round,
            [Feedback.of(view.round, int(who), value) for who, value in zip(senders, difference, strict=True)],
        )
        require_updates(view)
        trust = np.maximum(np.tanh(reputation - np.quantile(reputation, 0.25)), 0)[view.participants]
        self.trust = {int(who): float(value) for who, value in zip(view.participants, trust, strict=True)}
        combined, weight = self._combined(view, trust)
        scale = self.unscaled(view)
        change: Vector = combined * np.float32(scale)
        if self.sends_models:
            # Rows are whole models less the global one, which stays with the weight that the rows have in all.
            change += np.float32(weight * scale - 1) * view.weights
        return change

    def deliver(self, round: int, feedback: Sequence[Feedback]) -> None:
        """Participants change their local reputation of this round's partner by what they are sent."""
        for message in feedback:
            try:
                heard = Feedback.from_bytes(self._count(message).to_bytes()) if self.mode == "full" else message
                if heard.round != round:
                    raise ExchangeError("feedback of another round")
                difference = heard.value
            except ExchangeError as error:
                self.faults.append(f"in feedback: {error}")
                continue
            partner = self.partner.get(heard.receiver)
            if partner is not None:
                self.memory["local"][heard.receiver, partner] += difference

    def report(self) -> dict[str, Any]:
        reputation = self.memory["global"]
        return {
            **super().report(),
            "trust": {str(who): value for who, value in self.trust.items()},
            "reputation": reputation.tolist(),
            "excluded": np.flatnonzero(reputation < np.quantile(reputation, 0.25)).tolist(),
        }

    def _combined(self, view: ServerView, trust: npt.NDArray[np.float64]) -> tuple[Vector, float]:
        """Combine the rows into one; also return their weight in all."""
        if view.round < self.warmup:
            return median(view.updates), 1.0
        if self.normalise == "literal":
            # Line 18 of Protocol 1 does not divide by the trusts, so trust below 1 shrinks the model itself.
            shares = trust / len(trust)
            step: Vector = shares.astype(np.float32) @ view.updates
            return step, float(shares.sum())
        return weighted_mean(view.updates, trust if trust.any() else np.ones(len(trust))), 1.0


def scores(updates: Matrix, columns: Columns, alpha: float) -> npt.NDArray[np.float64]:
    r"""How alike each mixed update is to the others, from 0 to 1.

    $$ sim_k = \alpha \left( 1 - \frac{|med - \lVert x_k \rVert|}{\max_j |med - \lVert x_j \rVert|} \right)
       + (1 - \alpha) \frac{1 + \cos(x_{k,L}, med_L)}{2} $$

    with $med$ the median of the magnitudes and $med_L$ the coordinate-wise median of the last layers. Where all
    magnitudes are equally far from their median the first bracket is 1; where a vector is zero the cosine is 0.
    """
    magnitudes = row_norms(updates[:, columns.parameters])
    distances = np.abs(np.median(magnitudes) - magnitudes)
    farthest = distances.max()
    closeness = np.ones(len(distances)) if farthest == 0 else 1 - distances / farthest
    last = updates[:, columns.last_layer].astype(np.float64)
    middle = median(last.astype(np.float32)).astype(np.float64)
    lengths = np.linalg.norm(last, axis=1) * np.linalg.norm(middle)
    cosine = np.divide(last @ middle, lengths, out=np.zeros(len(last)), where=lengths > 0)
    similarity: npt.NDArray[np.float64] = alpha * closeness + (1 - alpha) * (cosine + 1) / 2
    return similarity
