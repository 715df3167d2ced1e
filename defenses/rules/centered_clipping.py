"""Centered clipping. Karimireddy et al., Learning from history for Byzantine robust optimization, ICML 2021."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from fflbench.plugin import Rule, ServerSetting, Vector, View, clipping_factors, distances_from, require_rows, rule

from ._rows import scaled_mean


@rule("centered-clipping", title="Centered clipping", tolerates="f <= n/10")
class CenteredClipping(Rule):
    r"""Start from the last aggregate and move it by the mean of the differences to it, each clipped to a norm of tau.

    $$ v \leftarrow v + \frac{1}{n} \sum_k (x_k - v) \min\!\left(1, \frac{\tau}{\lVert x_k - v \rVert}\right) $$

    repeated for the given number of iterations; v is 0 before the first round. The paper clips momentum of workers,
    which is a task's parameter here, `worker_momentum`. tau must fit the norms of updates: one that is never reached
    leaves the plain mean. The defaults are those of the authors' first code, whose momentum is a sum, 1 / (1 - beta)
    times as long as the average here: 100 there is 10 here with a momentum of 0.9.
    """

    tau: Annotated[float, Gt(0), "largest norm of a difference to the last aggregate"] = 100.0
    iterations: Annotated[int, Ge(1), "repetitions in every round"] = 1

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        self.memory["aggregate"] = np.zeros(setting.columns.count, np.float32)

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        require_rows(view)
        rows, parameters = view.rows, view.columns.parameters
        centre = self.memory["aggregate"].astype(rows.dtype)
        for _ in range(self.iterations):
            distances = distances_from(centre[parameters], rows[:, parameters])
            factors = clipping_factors(distances, self.tau)
            centre = (1 - float(factors.mean())) * centre + scaled_mean(rows, factors, len(rows))
        self.memory["aggregate"] = centre
        return centre.copy()
