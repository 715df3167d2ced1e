"""MoNNA. Farhadkhani et al., Robust collaborative learning with linear gradient overhead, ICML 2023."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Indices, Matrix, NoAnswerError, Vector, rule, weighted_mean


@rule("monna", title="MoNNA", tolerates="f <= n/11", defined="f < n/2")
def monna(
    updates: Matrix,
    f: int,
    trusted: Annotated[int, Ge(0), "place of the trusted sender among those of a round, in ascending order"] = 0,
    *,
    participants: Indices,
    distances: npt.NDArray[np.float64],
) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the n - f updates that are nearest to a trusted one, itself included.

    $$ w = \frac{1}{n-f} \sum_{k \in N} x_k, \qquad |N| = n - f, \qquad
       \lVert x_k - x_t \rVert \le \lVert x_j - x_t \rVert \ \text{for}\ k \in N,\ j \notin N $$

    In the paper there is no server: $x_t$ is each participant's own vector, and the nearest n - 2f of the first n - f
    that arrive are averaged, for which its bound on f is proved. A server receives all n, has no vector of its own, and
    trusts a sender: the first one, as ByzFL does, unless set otherwise. Equal distances are taken in the order of the
    updates.
    """
    n = len(updates)
    if trusted >= n:
        raise NoAnswerError(f"trusted = {trusted} counts from 0 and needs {trusted + 1} updates, of {n}")
    row = np.argsort(participants)[trusted]
    nearness = distances[row].copy()
    nearness[row] = -1
    weights = np.zeros(n)
    weights[np.argsort(nearness, kind="stable")[: n - f]] = 1
    return weighted_mean(updates, weights), weights
