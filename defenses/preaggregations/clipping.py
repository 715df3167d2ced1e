"""Static clipping of updates."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Gt

from fflbench.plugin import Coefficients, Matrix, preaggregation


@preaggregation(
    "clipping",
    title="Clipping",
    citation="Static clipping, with the default of ByzFL (González et al., ByzFL: research framework for robust "
    "federated learning, 2025).",
)
def clipping(
    updates: Matrix,
    bound: Annotated[float, Gt(0), "largest norm of an update"] = 2.0,
    *,
    norms: npt.NDArray[np.float64],
) -> Coefficients:
    r"""Scale every update down to a norm of at most the bound.

    $$ y_k = \min\!\left(1, \frac{c}{\lVert x_k \rVert}\right) x_k $$
    """
    return clipping_coefficients(norms, bound)


def clipping_coefficients(norms: npt.NDArray[np.float64], bound: float) -> Coefficients:
    """Return the coefficients that leave no norm above the bound."""
    return np.diag(np.divide(bound, norms, out=np.ones_like(norms), where=norms > bound))
