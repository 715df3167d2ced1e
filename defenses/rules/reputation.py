"""Reputation. Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022.

The server's half of that paper.
"""

import math
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le, Lt

from fflbench.plugin import (
    AddedLater,
    Columns,
    Feedback,
    Indices,
    Matrix,
    Rule,
    ServerSetting,
    Vector,
    View,
    require_rows,
    row_norms,
    rule,
    weighted_mean,
)

from .median import median

MAD_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
DEVIATIONS = 3
"""Standard deviations from the median at which Hampel's identifier takes a value for an outlier."""

DistanceScale = Literal["largest", "median"]


@rule("reputation", title="Reputation", tolerates="f <= n/5", participants=True)
class Reputation(Rule):
    """Score every row by its similarity to the others, and let reputations decide who is selected and trusted.

    docs/ffl.md explains where this differs from the paper's text, and why; the literal choices are parameters.
    """

    alpha: Annotated[float, Ge(0), Le(1), "weight of magnitude against direction in a score"] = 0.2
    selection_size: Annotated[
        Literal["settled", "literal"], "select C K of the candidates, or the paper's C times the candidates"
    ] = "settled"
    normalise: Annotated[
        Literal["trust", "literal"], "divide by the sum of trusts, or whole models by the sum of examples (line 18)"
    ] = "trust"
    non_finite: Annotated[
        Literal["penalise", "spare"], "whether a row that is not finite costs its sender reputation"
    ] = "penalise"
    warmup: Annotated[int, Ge(0), "first rounds with the median as aggregate and everybody selectable"] = 0
    explore: Annotated[float, Ge(0), Lt(1), "share of the selection that goes to those below the quartile"] = 0.0
    distance_scale: Annotated[
        DistanceScale,
        AddedLater(),
        "divide distances of norms by the largest, or by their median and cut them off at 1",
    ] = "largest"

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        self.memory["global"] = np.zeros(setting.participants)
        self.trust: dict[int, float] = {}

    def select(self, round: int, rng: np.random.Generator) -> Indices:
        """Select among those at or above the first quartile of reputation (Procedure 1)."""
        reputation, wanted = self.memory["global"], self.setting.per_round
        below = np.flatnonzero(reputation < np.quantile(reputation, 0.25)) if round >= self.warmup else np.empty(0, int)
        candidates = np.setdiff1d(np.arange(self.setting.participants), below)
        multiple = self.setting.multiple
        if self.selection_size == "literal":
            wanted = max(wanted * len(candidates) // self.setting.participants, multiple)
        else:
            wanted = max(min(wanted, len(candidates)) // multiple * multiple, multiple)
        wanted = min(wanted, len(candidates))
        others = min(math.floor(self.explore * wanted + 0.5), len(below))
        chosen = rng.choice(candidates, wanted - others, replace=False)
        return np.sort(np.concatenate([chosen, rng.choice(below, others, replace=False)]))

    def aggregate(self, view: View, rng: np.random.Generator) -> tuple[Vector, Feedback]:
        """Score, update reputations, send feedback, and average by trust."""
        assert view.participants is not None
        similarity = (
            similarity_scores(view.rows, view.columns, self.alpha, self.distance_scale)
            if len(view.rows)
            else np.empty(0)
        )
        # Without a single finite row there is no quartile: then any score is below the highest.
        quartile = np.quantile(similarity, 0.25) if len(similarity) else 1.0
        senders = np.concatenate([view.participants, view.dropped])
        # A row that is not finite gets the lowest similarity.
        difference = np.concatenate([similarity, np.zeros(len(view.dropped))]) - quartile
        reputation = self.memory["global"]
        scored = len(senders) if self.non_finite == "penalise" else len(view.participants)
        reputation[senders[:scored]] += difference[:scored]
        feedback = {int(who): float(value) for who, value in zip(senders, difference, strict=True)}
        self.trust = {}
        require_rows(view, feedback)
        trust = self._trust_of_all()[view.participants]
        self.trust = {int(who): float(value) for who, value in zip(view.participants, trust, strict=True)}
        return self._aggregate_by_trust(view, trust), feedback

    def report(self) -> dict[str, Any]:
        reputation = self.memory["global"]
        return {
            "trust": {str(who): value for who, value in self.trust.items()},
            "trust_of_all": {str(who): value for who, value in enumerate(self._trust_of_all().tolist())},
            "reputation": reputation.tolist(),
            "excluded": np.flatnonzero(reputation < np.quantile(reputation, 0.25)).tolist(),
        }

    def _trust_of_all(self) -> npt.NDArray[np.float64]:
        reputation = self.memory["global"]
        trust: npt.NDArray[np.float64] = np.maximum(np.tanh(reputation - np.quantile(reputation, 0.25)), 0)
        return trust

    def _aggregate_by_trust(self, view: View, trust: npt.NDArray[np.float64]) -> Vector:
        warming_up = view.round < self.warmup
        if self.normalise == "trust":
            if warming_up:
                return median(view.rows)
            return weighted_mean(view.rows, view.weights * (trust if trust.any() else np.ones(len(trust))))
        # Line 18 of Protocol 1 does not divide by the trusts, so trust below 1 shrinks the model itself.
        shares = trust * view.weights / view.weights.sum()
        combined: Vector = median(view.rows) if warming_up else shares.astype(np.float32) @ view.rows
        weight = 1.0 if warming_up else float(shares.sum())
        # Rows are local models minus the global one, which keeps the weight that the rows have in total.
        return combined + np.float32(weight - 1 / view.scale) * view.model


def similarity_scores(
    updates: Matrix, columns: Columns, alpha: float, distance_scale: DistanceScale = "largest"
) -> npt.NDArray[np.float64]:
    r"""Return each update's similarity to the others, from 0 to 1.

    $$ sim_k = \alpha \left( 1 - \frac{|med - \lVert x_k \rVert|}{\max_j |med - \lVert x_j \rVert|} \right)
       + (1 - \alpha) \frac{1 + \cos(x_{k,L}, med_L)}{2} $$

    with $med$ the median of the magnitudes and $med_L$ the coordinate-wise median of the last layers. Where all
    magnitudes are equally far from their median the first bracket is 1; where a vector is zero the cosine is 0.

    One huge update makes the largest distance arbitrarily large, and so the first bracket 1 for all others. With
    `distance_scale = "median"`, which is not the paper's, distances are divided by three robust standard deviations,
    $3 \cdot 1.4826 \cdot \mathrm{med}_j |med - \lVert x_j \rVert|$, and cut off at 1: what Hampel's identifier
    (Davies and Gather, The identification of multiple outliers, JASA 1993) takes for an outlier is not close at all.
    """
    magnitudes = row_norms(updates[:, columns.parameters])
    distances = np.abs(np.median(magnitudes) - magnitudes)
    closeness = _closeness(distances, distance_scale)
    last = updates[:, columns.last_layer].astype(np.float64)
    middle = median(last.astype(np.float32)).astype(np.float64)
    lengths = np.linalg.norm(last, axis=1) * np.linalg.norm(middle)
    cosine = np.divide(last @ middle, lengths, out=np.zeros(len(last)), where=lengths > 0)
    similarity: npt.NDArray[np.float64] = alpha * closeness + (1 - alpha) * (cosine + 1) / 2
    return similarity


def _closeness(distances: npt.NDArray[np.float64], distance_scale: DistanceScale) -> npt.NDArray[np.float64]:
    if distance_scale == "largest":
        farthest = distances.max()
        return np.ones(len(distances)) if farthest == 0 else 1 - distances / farthest
    outlying = DEVIATIONS * MAD_OF_NORMAL * np.median(distances)
    # Where most magnitudes are equal, every other one is an outlier.
    shares = np.divide(distances, outlying, out=(distances > 0).astype(np.float64), where=outlying > 0)
    closeness: npt.NDArray[np.float64] = 1 - np.minimum(shares, 1)
    return closeness
