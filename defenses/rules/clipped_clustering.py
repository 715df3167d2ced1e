"""ClippedClustering. Li et al., An experimental study of Byzantine-robust aggregation schemes, IEEE TBD 2023."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Rule, ServerSetting, Vector, View, gram, require_rows, rule

from ._rows import clipping_factors, scaled_mean, weights_by_sender

Members: TypeAlias = npt.NDArray[np.bool_]
"""Whether each row belongs to a cluster."""


@rule("clipped-clustering", title="ClippedClustering", tolerates="f < n/2")
class ClippedClustering(Rule):
    r"""Clip updates to the median norm of all rounds so far, and average the larger of two clusters by direction.

    $$ w = \frac{1}{|C|} \sum_{k \in C} \min\!\left(1, \frac{\tau}{\lVert x_k \rVert}\right) x_k, \qquad
       \tau = \operatorname{median}\{\lVert x_k^{(t)} \rVert : \text{all } k, t \text{ so far}\} $$

    with C from agglomerative clustering with average linkage on the distances $1 - \cos(x_j, x_k)$, where the cosine
    with a row of zeros is 0. Of two clusters of equal size, the one whose rows are nearer to each other is averaged.
    """

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        self.memory["norms"] = np.zeros(0)
        self.weights: dict[str, float] = {}

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        self.weights = {}
        require_rows(view)
        products = gram(view.rows[:, view.columns.parameters])
        norms = np.sqrt(products.diagonal())
        self.memory["norms"] = np.concatenate([self.memory["norms"], norms])
        factors = clipping_factors(norms, float(np.median(self.memory["norms"])))
        chosen = larger_cluster(products, norms)
        self.weights = weights_by_sender(view, chosen * factors)
        return scaled_mean(view.rows, chosen * factors, chosen.sum())

    def report(self) -> dict[str, Any]:
        return {"row_weights": self.weights}


def larger_cluster(products: npt.NDArray[np.float64], norms: npt.NDArray[np.float64]) -> Members:
    """Return the members of the larger of two clusters, given all inner products of rows."""
    if len(norms) == 1:
        return np.ones(1, bool)
    # Loaded on first use: it takes a second.
    from sklearn.cluster import AgglomerativeClustering

    lengths = np.outer(norms, norms)
    cosine = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    distances = np.clip(1 - cosine, 0, 2)
    np.fill_diagonal(distances, 0)
    clustering = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="average")
    first: Members = clustering.fit_predict(distances) == 0

    def size_and_closeness(members: Members) -> tuple[int, float]:
        return int(members.sum()), -float(distances[np.ix_(members, members)].sum())

    return max(first, ~first, key=size_and_closeness)
