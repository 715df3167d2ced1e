"""Federated averaging. McMahan et al., Communication-efficient learning of deep networks, AISTATS 2017."""

from typing import Any

import numpy.typing as npt

from fflbench.plugin import Matrix, Vector, rule, weighted_mean


@rule("fedavg", title="FedAvg", linear=True, coordinatewise=True)
def fedavg(updates: Matrix, *, weights: npt.NDArray[Any]) -> Vector:
    r"""Average all updates, each by its number of examples: no defense at all.

    $$ w = \sum_k \frac{d_k}{\sum_j d_j} x_k $$
    """
    return weighted_mean(updates, weights)
