"""Random weights. Li et al., RSA, AAAI 2019; Han et al., FedSecurity, KDD 2024."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import send_without_data


@attack("random-weights", title="Random weights", knows=[])
class RandomWeights(Attack):
    """Send a model with random parameters, drawn anew by every attacker in every round.

    They are uniform between -1 and 1 times a scale, as in FedSecurity, or Gaussian with mean 0 and the scale as
    standard deviation, as in RSA, whose authors' code has 10000. Buffers are sent unchanged.
    """

    distribution: Annotated[Literal["uniform", "gaussian"], "distribution of every parameter"] = "uniform"
    scale: Annotated[float, Gt(0), "end of the uniform distribution, deviation of the Gaussian"] = 1.0

    def poison_updates(self, known: Known) -> Matrix:
        weights = known.weights[known.columns.parameters].astype(np.float64)
        shape = len(known.updates), len(weights)
        uniform = self.distribution == "uniform"
        drawn = known.rng.uniform(-1, 1, shape) if uniform else known.rng.standard_normal(shape)
        return send_without_data(known, self.scale * drawn - weights)
