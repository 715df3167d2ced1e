"""Updates scaled to the median norm. An example."""

import numpy as np

from fflbench.plugin import Coefficients, Matrix, Vector, preaggregation


@preaggregation("median-norm", title="Median norm")
def median_norm(updates: Matrix, norms: Vector) -> Coefficients:
    """Scale every update to the median norm; updates of zeros stay."""
    return np.diag(np.divide(np.median(norms), norms, out=np.ones_like(norms), where=norms > 0))
