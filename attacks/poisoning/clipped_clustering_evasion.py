"""A chain of updates that leads a cluster away from the honest mean, as in Blades (Li et al., IoTDI 2024)."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Attack, Known, Matrix, attack, gram

from ._crafted_rows import Numbers, in_single_precision, inner_products, known_rows, mean_of_rows, unit


@attack(
    "clipped-clustering-evasion",
    title="ClippedClustering evasion",
    knows=["own data", "attackers' updates", "honest updates"],
)
class ClippedClusteringEvasion(Attack):
    r"""Send updates each of which turns further away from the honest mean, by less than clusters are apart.

    $$ x_k = r (u \cos\theta_k + v \sin\theta_k), \qquad \theta_k = \min(\theta_0 + k \varphi, \pi), \qquad
       \varphi = \arccos(1 - d) - \delta $$

    u is the direction of the honest mean. The honest updates are divided into two clusters by their cosine distances
    (single linkage), whose least distance is d. In the larger one, the update farthest from the mean, at the angle
    $\theta_0$, begins the chain, and v is its direction orthogonal to u. So every link is nearer to the one before than
    the other cluster is, and the chain belongs to the larger cluster. All have the median norm r of the honest updates
    (less, where the mean is 0). The adversary of Blades has the same purpose; there d is the least distance of any two
    updates, the length is 10, and links after the first are not unit vectors, so that their angles differ. Buffers stay
    as trained.
    """

    margin: Annotated[float, Ge(0), "angle by which a turn is smaller than that between the clusters"] = 0.1

    def poison_updates(self, known: Known) -> Matrix:
        rows, parameters = known_rows(known), known.columns.parameters
        products = gram(rows)
        if not np.isfinite(products).all():
            # Nobody sent a finite update, which the server drops.
            return known.updates
        norms = np.sqrt(np.maximum(products.diagonal(), 0))
        distances = 1 - _cosines(products, np.outer(norms, norms))
        larger = larger_cluster(distances)
        gap = distances[np.ix_(larger, ~larger)].min() if (~larger).any() else 0.0
        turn = max(float(np.arccos(np.clip(1 - gap, -1, 1))) - self.margin, 0.0)
        toward = unit(mean_of_rows(rows))
        nearness = _cosines(inner_products(rows, toward), norms)
        first = np.where(larger, nearness, np.inf).argmin()
        away = _orthogonal(unit(rows[first].astype(np.float64)), toward, known.rng)
        start = float(np.arccos(np.clip(nearness[first], -1, 1)))
        for link, row in enumerate(known.updates, start=1):
            angle = min(start + link * turn, np.pi)
            direction = np.cos(angle) * toward + np.sin(angle) * away
            row[parameters] = in_single_precision(np.median(norms) * direction)
        return known.updates


def larger_cluster(distances: Numbers) -> npt.NDArray[np.bool_]:
    """Return which rows belong to the larger of two clusters by single linkage; all of them if there is one row."""
    if len(distances) < 2:
        return np.ones(len(distances), bool)
    # Loaded on first use: it takes a second.
    from sklearn.cluster import AgglomerativeClustering

    clustering = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="single")
    members: npt.NDArray[np.bool_] = clustering.fit_predict(np.maximum(distances, 0)) == 0
    return members if 2 * members.sum() >= len(members) else ~members


def _cosines(products: Numbers, lengths: Numbers) -> Numbers:
    """Return cosines from inner products; those with zeros are 0."""
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)


def _orthogonal(vector: Numbers, direction: Numbers, rng: np.random.Generator) -> Numbers:
    """Return the direction of a vector's part that is orthogonal to another, or a random one if it has no such part."""
    for each in (vector, rng.standard_normal(len(vector))):
        part = each - (each @ direction) * direction
        # Rounding leaves a little of a vector that has no such part.
        if np.linalg.norm(part) > 1e-6 * np.linalg.norm(each):
            break
    return unit(part)
