"""FoolsGold. Fung et al., The limitations of federated learning in sybil settings, RAID 2020."""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Gt

from fflbench.plugin import NoAnswerError, Rule, ServerSetting, Vector, View, gram, require_rows, rule, weighted_mean

ROUNDING = 1e-12


@rule("foolsgold", title="FoolsGold", participants=True)
class FoolsGold(Rule):
    """Reduce the weight of participants whose last-layer updates, summed over all rounds, resemble another's.

    All participants seen so far are compared, whether or not selected in this round. Where all weights are zero there
    is no aggregate. Diverse updates count as honest, so added noise gets full weight: that is the published behaviour.
    """

    kappa: Annotated[float, Gt(0), "confidence: how sharply the weights separate similar from different updates"] = 1.0

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        last = setting.columns.last_layer
        self.memory["history"] = np.zeros((setting.participants, last.stop - last.start))
        self.memory["seen"] = np.zeros(setting.participants, bool)
        self.weights: dict[str, float] = {}

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        self.weights = {}
        require_rows(view)
        assert view.participants is not None
        history, seen = self.memory["history"], self.memory["seen"]
        history[view.participants] += view.rows[:, view.columns.last_layer]
        seen[view.participants] = True
        weights = np.zeros(len(seen))
        weights[seen] = foolsgold_weights(history[seen], self.kappa)
        self.weights = {str(who): float(weights[who]) for who in view.participants}
        if not weights[view.participants].any():
            raise NoAnswerError("every participant has weight zero")
        return weighted_mean(view.rows, weights[view.participants])

    def report(self) -> dict[str, Any]:
        return {"row_weights": self.weights}


def foolsgold_weights(histories: npt.NDArray[np.float64], kappa: float) -> npt.NDArray[np.float64]:
    r"""Return the weight of each history (Algorithm 1 of the paper).

    $$ v_i = \max(0, \max_{j \ne i} c_{ij}), \qquad c'_{ij} = c_{ij} \min(1, v_i / v_j), \qquad
       \alpha_i = \frac{1 - \max_j c'_{ij}}{\max_k (1 - \max_j c'_{kj})}, \qquad
       w_i = \kappa \left( \ln \frac{\alpha_i}{1 - \alpha_i} + \frac12 \right) $$

    with $c$ the cosine, the ratio applied where $v_j > v_i$ (the honest are pardoned for resembling a sybil), and
    $\alpha$ and $w$ kept between 0 and 1. That $v$ is never negative is not in the pseudocode but in the authors' code,
    where a participant's similarity to itself is zero; without it pardoning would be inverted for a participant whose
    cosine with all others is negative.
    """
    if len(histories) == 1:
        return np.ones(1)
    products = gram(histories)
    norms = np.sqrt(products.diagonal())
    lengths = np.outer(norms, norms)
    cosine = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    # Weights are relative to the largest distance from 1, so rounding must not make equal histories differ.
    cosine[cosine > 1 - ROUNDING] = 1
    np.fill_diagonal(cosine, 0)
    most = cosine.max(1)
    pardoned = most[None, :] > most[:, None]
    cosine *= np.divide(most[:, None], most[None, :], out=np.ones_like(cosine), where=pardoned)
    alpha: npt.NDArray[np.float64] = np.clip(1 - cosine.max(1), 0, 1)
    if not alpha.any():
        return alpha
    alpha /= alpha.max()
    with np.errstate(divide="ignore"):
        weights: npt.NDArray[np.float64] = np.clip(kappa * (np.log(alpha / (1 - alpha)) + 0.5), 0, 1)
    return weights
