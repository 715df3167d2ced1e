"""Adaptive robust clipping. Allouah et al., Adaptive gradient clipping for robust federated learning, ICLR 2025."""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Coefficients, Matrix, preaggregation

from .clipping import clipping_coefficients


@preaggregation("arc", title="ARC", tolerates="f < n/2")
def arc(updates: Matrix, f: int, *, norms: npt.NDArray[np.float64]) -> Coefficients:
    r"""Scale the k updates with the largest norms down to the next largest norm.

    $$ y_i = \min\!\left(1, \frac{\lVert x_{(k+1)} \rVert}{\lVert x_i \rVert}\right) x_i, \qquad
       k = \left\lfloor 2 \frac{f}{n} (n - f) \right\rfloor, \qquad
       \lVert x_{(1)} \rVert \ge \dots \ge \lVert x_{(n)} \rVert $$
    """
    n = len(updates)
    k = 2 * f * (n - f) // n
    return clipping_coefficients(norms, np.sort(norms)[n - 1 - k])
