"""FLTrust. Cao et al., FLTrust: Byzantine-robust federated learning via trust bootstrapping, NDSS 2021."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Columns, Matrix, NoAnswerError, Vector, rule

from ._rows import scaled_mean


@rule("fltrust", title="FLTrust")
def fltrust(
    updates: Matrix, *, root_update: Vector, norms: npt.NDArray[np.float64], columns: Columns
) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average updates scaled to the norm of the server's own, each by its cosine with it if that is positive.

    $$ w = \frac{1}{\sum_j t_j} \sum_k t_k \frac{\lVert g_0 \rVert}{\lVert x_k \rVert} x_k, \qquad
       t_k = \max(0, \cos(x_k, g_0)) $$

    with $g_0$ the update of the server's own examples: the task must have some, `root_examples = 100` in the paper.
    Where all trust scores are 0 the model is kept; some libraries average all updates then.
    """
    root = root_update[columns.parameters].astype(np.float64)
    length = float(np.linalg.norm(root))
    # Row by row: in single precision, products of huge rows overflow.
    products = np.array([row.astype(np.float64) @ root for row in updates[:, columns.parameters]])
    positive = (products > 0) & (norms > 0)
    trust = np.divide(products, norms * length, out=np.zeros(len(updates)), where=positive)
    if not trust.any():
        raise NoAnswerError("every update has trust score 0")
    factors = np.divide(trust * length, norms, out=np.zeros(len(updates)), where=positive)
    return scaled_mean(updates, factors, trust.sum()), trust
