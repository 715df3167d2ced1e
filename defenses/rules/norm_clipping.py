"""Norm clipping and weak differential privacy. Sun et al., Can you really backdoor federated learning?, 2019."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from fflbench.plugin import Columns, Matrix, Vector, clipping_factors, rule

from ._rows import scaled_mean


@rule("norm-clipping", title="Norm clipping")
def norm_clipping(
    updates: Matrix,
    bound: Annotated[float, Gt(0), "largest norm of an update, M"] = 3.0,
    noise: Annotated[
        float, Ge(0), "standard deviation of the noise on the aggregate: weak DP, 0.158 (variance 0.025) or 0.025"
    ] = 0.0,
    *,
    norms: npt.NDArray[np.float64],
    columns: Columns,
    rng: np.random.Generator,
) -> Vector:
    r"""Average updates clipped to a norm of at most M, and add Gaussian noise if asked to.

    $$ w = \frac{1}{n} \sum_k \frac{x_k}{\max(1, \lVert x_k \rVert / M)} + \mathcal{N}(0, \sigma^2 I) $$

    The noise is drawn once, for the aggregate's parameters; some libraries add it to each update. M must fit the norms
    of honest updates, which depend on the task: 3 is usual, and 1 the default of the authors' code.
    """
    change = scaled_mean(updates, clipping_factors(norms, bound), len(updates))
    if noise:
        parameters = change[columns.parameters]
        parameters += noise * rng.standard_normal(parameters.shape, change.dtype)
    return change
