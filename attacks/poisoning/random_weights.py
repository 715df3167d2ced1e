"""Random weights. Li et al., RSA, AAAI 2019; Han et al., FedSecurity, KDD 2024."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import send_without_data


@attack("random-weights", title="Random weights", knows=[])
class RandomWeights(Attack):
    """Send a model with random parameters, drawn anew by every attacker in every round.

    They are uniform between 0 and a scale, as in FedSecurity, or Gaussian with mean 0 and the scale as standard
    deviation, as in RSA, whose authors' code has 10000. Buffers are sent unchanged.
    """

    distribution: Annotated[Literal["uniform", "gaussian"], "distribution of every parameter"] = "uniform"
    scale: Annotated[float, Gt(0), "upper end of the uniform distribution, deviation of the Gaussian"] = 1.0

    def poison_updates(self, known: Known) -> Matrix:
        weights = known.weights[known.columns.parameters].astype(np.float64)
        draw = known.rng.random if self.distribution == "uniform" else known.rng.standard_normal
        return send_without_data(known, self.scale * draw((len(known.updates), len(weights))) - weights)
