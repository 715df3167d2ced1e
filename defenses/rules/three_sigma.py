"""Three-sigma rule. Han et al., Kick bad guys out! Conditionally activated anomaly detection, 2023."""

import math
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import (
    Matrix,
    NoAnswerError,
    Rule,
    ServerSetting,
    Vector,
    View,
    distances_from,
    require_rows,
    rule,
    squared_distances,
    weighted_mean,
)

from ._rows import weights_by_sender
from .multi_krum import krum_scores

ROUNDING = 1e-9
"""Relative difference by which rounding may put a score above the bound."""


@rule("three-sigma", title="Three sigma", tolerates="f < n/2")
class ThreeSigma(Rule):
    r"""Average, by examples, the updates whose last layer is not unusually far from last round's average model.

    $$ s_k = \lVert m_k - c \rVert, \qquad \text{kept: } s_k \le \mu + \lambda \sigma $$

    with $m_k$ the last layer of a participant's model (FedML leaves out its bias), $\mu$ and $\sigma$ the mean and the
    standard deviation of this round's scores, and c the mean of the models kept in the last round; in the first round,
    of those $\lceil n/2 \rceil - 1$ with the lowest Krum scores. This is the paper's check of participants in every
    round, as FedML's `ThreeSigmaKrumDefense` has it, with its bound of 1 (0.5 in its later `ThreeSigmaDefense`). Low
    scores are never suspicious. A score among n cannot be more than $(n-1)/\sqrt{n}$ deviations above the mean, so that
    with $\lambda = 3$ fewer than 11 updates are never filtered.
    """

    bound: Annotated[float, Ge(0), "standard deviations above the mean from which an update is dropped"] = 1.0

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        self.weights: dict[str, float] = {}

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        self.weights = {}
        require_rows(view)
        last = view.columns.last_layer
        rows, model = view.rows[:, last], view.model[last].astype(np.float64)
        if "centre" not in self.memory:
            self.memory["centre"] = model + krum_centre(rows)
        kept = usual_scores(distances_from(self.memory["centre"] - model, rows), self.bound)
        self.memory["centre"] = model + rows.mean(0, dtype=np.float64, where=kept[:, None])
        weights = view.weights * kept
        if not weights.any():
            raise NoAnswerError("no update with examples was kept")
        self.weights = weights_by_sender(view, weights)
        return weighted_mean(view.rows, weights)

    def report(self) -> dict[str, Any]:
        return {"row_weights": self.weights}


def krum_centre(rows: Matrix) -> npt.NDArray[np.float64]:
    """Return the mean of nearly half of the rows, those with the lowest Krum scores."""
    n = len(rows)
    half = max(1, math.ceil(n / 2) - 1)
    # With this f, n - f - 2 neighbours are half of the rows too.
    chosen = np.argsort(krum_scores(squared_distances(rows), n - half - 2), kind="stable")[:half]
    centre: npt.NDArray[np.float64] = rows.mean(0, dtype=np.float64, where=np.isin(np.arange(n), chosen)[:, None])
    return centre


def usual_scores(scores: npt.NDArray[np.float64], bound: float) -> npt.NDArray[np.bool_]:
    """Return which scores are at most so many standard deviations above their mean."""
    deviation = scores.std(ddof=1) if len(scores) > 1 else 0.0
    usual: npt.NDArray[np.bool_] = scores <= (scores.mean() + bound * deviation) * (1 + ROUNDING)
    return usual
