"""SignGuard. Xu et al., Byzantine-robust federated learning through collaborative malicious gradient filtering, 2022.

ICDCS 2022.
"""

import warnings
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from fflbench.plugin import Columns, Matrix, NoAnswerError, Vector, clipping_factors, rule

from ._rows import scaled_mean


@rule("signguard", title="SignGuard", tolerates="f < n/2")
def signguard(
    updates: Matrix,
    lower: Annotated[float, Ge(0), "smallest norm that is kept, in multiples of the median norm"] = 0.1,
    upper: Annotated[float, Gt(0), "largest norm that is kept, in multiples of the median norm"] = 3.0,
    share: Annotated[float, Gt(0), Le(1), "share of the coordinates whose signs are counted"] = 0.1,
    *,
    norms: npt.NDArray[np.float64],
    columns: Columns,
    rng: np.random.Generator,
) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average clipped updates of usual norm whose shares of positive, zero and negative values are usual too.

    $$ w = \frac{1}{|S_1 \cap S_2|} \sum_{k \in S_1 \cap S_2} \min\!\left(1, \frac{m}{\lVert x_k \rVert}\right) x_k,
       \qquad S_1 = \{k : L m < \lVert x_k \rVert < R m\} $$

    with m the median norm and $S_2$ the largest cluster that mean shift finds among the shares of the three signs, each
    divided by its maximum. Signs are counted in a randomly drawn window of consecutive coordinates. As in the authors'
    code, the bandwidth is the mean radius of the nearest half of the updates; all count for it, in their code at most
    50. Of fewer than 4 updates the nearest half is each update alone, so that they are taken as one cluster.
    """
    middle = float(np.median(norms))
    usual = (norms > lower * middle) & (norms < upper * middle)
    kept = usual & largest_cluster(sign_shares(updates[:, columns.parameters], share, rng))
    if not kept.any():
        raise NoAnswerError("no update passed both filters")
    weights = kept * clipping_factors(norms, middle)
    return scaled_mean(updates, weights, kept.sum()), weights


def sign_shares(rows: Matrix, share: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return each row's shares of positive, zero and negative values, divided by their maxima over the rows."""
    d = rows.shape[1]
    width = min(d, max(1, int(share * d)))
    start = rng.integers(d - width + 1)
    counts = [(np.count_nonzero(row > 0), np.count_nonzero(row < 0)) for row in rows[:, start : start + width]]
    shares = np.array([(positive, width - positive - negative, negative) for positive, negative in counts], np.float64)
    most = shares.max(0)
    features: npt.NDArray[np.float64] = np.divide(shares, most, out=np.zeros_like(shares), where=most > 0)
    return features


def largest_cluster(features: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which rows of features belong to the largest cluster of mean shift; all where they are fewer than 4."""
    if len(features) < 4:
        return np.ones(len(features), np.bool_)
    # Loaded on first use: it takes a second.
    from sklearn.cluster import MeanShift

    distances = np.linalg.norm(features[:, None] - features, axis=2)
    # As scikit-learn estimates it, but exactly 0 where features are equal.
    bandwidth = float(np.sort(distances, axis=1)[:, len(features) // 2 - 1].mean())
    if bandwidth == 0:
        labels = np.unique(features, axis=0, return_inverse=True)[1].ravel()
    else:
        with warnings.catch_warnings():
            # It says that every row is a seed of its own.
            warnings.filterwarnings("ignore", "Binning data failed")
            shifted = MeanShift(bandwidth=bandwidth, bin_seeding=True, cluster_all=False).fit(features)
        labels = shifted.labels_
    if not (labels >= 0).any():
        raise NoAnswerError("mean shift assigned no update to a cluster")
    members: npt.NDArray[np.bool_] = labels == np.bincount(labels[labels >= 0]).argmax()
    return members
