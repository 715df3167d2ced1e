"""DnC. Shejwalkar and Houmansadr, Manipulating the Byzantine, NDSS 2021."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from fflbench.plugin import Columns, Matrix, NoAnswerError, Vector, gram, rule, weighted_mean


@rule("dnc", title="DnC", tolerates="f < n/2", defined="f <= n - 1")
def dnc(
    updates: Matrix,
    f: int,
    coordinates: Annotated[int, Ge(1), "coordinates drawn in each iteration; all where there are fewer"] = 10_000,
    iterations: Annotated[int, Ge(1), "repetitions with other coordinates"] = 1,
    c: Annotated[float, Gt(0), "share of f that each iteration removes"] = 1.0,
    *,
    columns: Columns,
    rng: np.random.Generator,
) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the updates that are never among the c f with the largest projections on the direction of most spread.

    $$ s(k) = \langle x_k - \mu, v \rangle^2, \qquad w = \frac{1}{|G|} \sum_{k \in G} x_k, \qquad
       G = \bigcap_t G_t $$

    with $\mu$ the mean and v the top right singular vector of the centred updates, both of randomly drawn coordinates,
    and $G_t$ the n - c f updates with the lowest scores. An empty intersection is no answer. The authors'
    repository has no code of it; others take 1 or 5 iterations, 1,000 or 10,000 coordinates, and c = 1 or (n - 1) / n.
    """
    n, d = len(updates), columns.parameters.stop
    kept = int(n - c * f)
    if kept < 1:
        raise NoAnswerError(f"c f = {c * f:g} leaves none of {n} updates")
    good = np.ones(n, bool)
    for _ in range(iterations):
        drawn = np.sort(rng.choice(d, coordinates, replace=False)) if coordinates < d else columns.parameters
        ranked = np.argsort(outlier_scores(updates[:, drawn]), kind="stable")
        good[ranked[kept:]] = False
    if not good.any():
        raise NoAnswerError("no update was kept in all iterations")
    return weighted_mean(updates, good), good.astype(np.float64)


def outlier_scores(rows: Matrix) -> npt.NDArray[np.float64]:
    """Return the squared projections of centred rows on their top right singular vector."""
    products = gram(rows)
    of_rows = products.mean(0)
    centred = products - of_rows - of_rows[:, None] + of_rows.mean()
    # Projections are the top left singular vector times its singular value, and both follow from inner products.
    values, vectors = np.linalg.eigh(centred)
    scores: npt.NDArray[np.float64] = values[-1] * vectors[:, -1] ** 2
    return scores
