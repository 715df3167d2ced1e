"""Krum and Multi-Krum. Blanchard et al., Machine learning with adversaries, NeurIPS 2017."""

from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Matrix, Vector, rule, weighted_mean

Distances: TypeAlias = npt.NDArray[np.float64]
"""Squared Euclidean distances between all updates."""


@rule("krum", title="Krum", tolerates="f < (n - 2)/2", defined="f <= n - 3")
def krum(updates: Matrix, f: int, *, distances: Distances) -> Vector:
    """Take the one update that is nearest to its n - f - 2 nearest others: Multi-Krum with m = 1."""
    nearest: Vector = updates[krum_scores(distances, f).argmin()].copy()
    return nearest


@rule("multi-krum", title="Multi-Krum", tolerates="f < (n - 2)/2", defined="f <= n - 3")
def multi_krum(
    updates: Matrix,
    f: int,
    m: Annotated[Annotated[int, Ge(1)] | None, "updates that are averaged, at most all; none means n - f"] = None,
    *,
    distances: Distances,
) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the m updates that are nearest to their n - f - 2 nearest others.

    $$ s(k) = \sum_{j \in N_k} \lVert x_k - x_j \rVert^2, \qquad |N_k| = n - f - 2,\ k \notin N_k $$

    Libraries differ in the number of neighbours, in squaring, and in counting k among them; this is the paper's
    definition. Equal scores are taken in the order of the participants.
    """
    n = len(updates)
    chosen = np.argsort(krum_scores(distances, f), kind="stable")[: n - f if m is None else m]
    weights = np.zeros(n)
    weights[chosen] = 1
    return weighted_mean(updates, weights), weights


def krum_scores(distances: Distances, f: int) -> Distances:
    """Return every update's sum of squared distances to its nearest others, of which there is at least one."""
    # The first of each row is the distance to itself.
    total: Distances = np.sort(distances, axis=1)[:, 1 : max(2, len(distances) - f - 1)].sum(1)
    return total
