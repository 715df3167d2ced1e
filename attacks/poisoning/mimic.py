"""Mimic. Karimireddy, He, Jaggi, Byzantine-robust learning on heterogeneous datasets via bucketing, ICLR 2022."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Attack, AttackSetting, Known, Matrix, attack

from ._crafted_rows import finite_honest_updates, inner_products, mean_of_rows, unit


@attack("mimic", title="Mimic", knows=["own data", "attackers' updates", "honest updates"])
class Mimic(Attack):
    r"""Copy an honest update that lies far out in the direction in which honest updates differ most.

    In rounds t = 0, 1, ... of the warm-up, the mean and the direction are updated, and z is scaled to length 1:

    $$ \mu \leftarrow \tfrac{t}{1+t} \mu + \tfrac{1}{1+t} \bar g, \quad
    z \leftarrow \tfrac{t}{1+t} z + \tfrac{1}{1+t} \frac{v}{\|v\|}, \quad
    v = \sum_i \langle g_i - \mu, z \rangle (g_i - \mu) $$

    All attackers send the honest update with the largest inner product with z, buffers included. The paper stays with
    one participant after the warm-up; here the direction stays, since attackers are not told who sent which update. One
    round of warm-up is the default of its authors' code.
    """

    warmup: Annotated[int, Ge(1), "rounds in which the direction is learned"] = 1

    def begin(self, setting: AttackSetting) -> None:
        super().begin(setting)
        count = setting.columns.parameters.stop
        z = setting.rng.standard_normal(count, dtype=np.float32)
        self.memory |= {"mean": np.zeros(count, np.float32), "direction": z, "rounds": np.array(0)}

    def poison_updates(self, known: Known) -> Matrix:
        honest = finite_honest_updates(known)
        if not len(honest):
            return known.updates
        rows = honest[:, known.columns.parameters]
        if self.memory["rounds"] < self.warmup:
            self._learn(rows)
        z = self.memory["direction"].astype(np.float64)
        known.updates[:] = honest[inner_products(rows, z).argmax()]
        return known.updates

    def _learn(self, rows: Matrix) -> None:
        """Update mean and direction by the honest updates of a round."""
        t = int(self.memory["rounds"])
        mean = (t * self.memory["mean"].astype(np.float64) + mean_of_rows(rows)) / (1 + t)
        z = self.memory["direction"].astype(np.float64)
        weights, spread = inner_products(rows, z) - mean @ z, np.zeros(len(z))
        for weight, row in zip(weights, rows, strict=True):
            spread += weight * (row - mean)
        # In the first round, z is a random vector and counts for nothing, unless all updates are equal.
        if spread.any():
            z = (t * z + unit(spread)) / (1 + t)
        self.memory |= {"mean": mean.astype(np.float32), "direction": unit(z).astype(np.float32)}
        self.memory["rounds"] = np.array(t + 1)
