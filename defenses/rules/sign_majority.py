"""signSGD with majority vote. Bernstein et al., signSGD with majority vote is fault tolerant, ICLR 2019."""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Columns, Matrix, Vector, rule

from ._rows import sums_of_signs
from .median import median


@rule("sign-majority", title="Sign majority", tolerates="f < n/2")
def sign_majority(
    updates: Matrix,
    step: Annotated[
        Annotated[float, Gt(0)] | None, "change of every parameter; none means the median update's mean absolute value"
    ] = None,
    *,
    columns: Columns,
) -> Vector:
    r"""Move every parameter by the same step, in the direction that most updates have; not at all on a tie.

    $$ w_i = \gamma \operatorname{sign} \sum_k \operatorname{sign}(x_{k,i}), \qquad
       \gamma = \operatorname{median}_k \frac{\lVert x_k \rVert_1}{d} $$

    The paper's step is a learning rate, set with `step`; a constant that suits one task ruins another, so the default
    follows the updates: the aggregate moves parameters as far, in all, as the median update does. Buffers have no
    direction to vote on: theirs is the coordinate-wise median.
    """
    parameters = columns.parameters
    if step is None:
        lengths = [np.abs(row).sum(dtype=np.float64) for row in updates[:, parameters]]
        step = float(np.median(lengths)) / max(1, parameters.stop)
    change: Vector = np.sign(sums_of_signs(updates))
    change *= step
    buffers = slice(parameters.stop, None)
    change[buffers] = median(updates[:, buffers])
    return change
