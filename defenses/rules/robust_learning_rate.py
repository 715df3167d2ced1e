"""Robust learning rate. Ozdayi et al., Defending against backdoors in federated learning, AAAI 2021."""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Columns, Matrix, Vector, rule, weighted_mean

from ._rows import sums_of_signs


@rule("robust-learning-rate", title="Robust learning rate", coordinatewise=True)
def robust_learning_rate(
    updates: Matrix,
    theta: Annotated[
        float, Ge(0), "updates by which one sign must prevail; 4 of 10, 8 of 40 in the authors' code"
    ] = 4.0,
    *,
    weights: npt.NDArray[Any],
    columns: Columns,
) -> Vector:
    r"""Average all updates by examples, and reverse the step of every parameter on whose sign too few agree.

    $$ w_i = \eta_i \sum_k \frac{d_k}{\sum_j d_j} x_{k,i}, \qquad
       \eta_i = \begin{cases} 1 & \left| \sum_k \operatorname{sign}(x_{k,i}) \right| \ge \theta \\ -1 & \text{otherwise}
       \end{cases} $$

    The threshold is a number of participants, which must exceed that of attackers. Buffers have no learning rate
    and are averaged.
    """
    change = weighted_mean(updates, weights)
    parameters = change[columns.parameters]
    disputed = np.abs(sums_of_signs(updates[:, columns.parameters])) < theta
    np.negative(parameters, out=parameters, where=disputed)
    return change
