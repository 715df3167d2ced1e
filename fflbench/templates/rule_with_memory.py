"""Momentum on the server. Reddi et al., Adaptive federated optimization, ICLR 2021 (FedAvgM)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Lt

from fflbench.plugin import Rule, ServerSetting, Vector, View, require_rows, rule, weighted_mean


@rule("server-momentum", title="Server momentum")
class ServerMomentum(Rule):
    """Add to the mean of the updates a part of the last aggregate."""

    beta: Annotated[float, Ge(0), Lt(1), "weight of the last aggregate"] = 0.9

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        self.memory["aggregate"] = np.zeros(setting.columns.count, np.float32)

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        require_rows(view)
        mean = weighted_mean(view.rows, view.weights)
        self.memory["aggregate"] = np.float32(self.beta) * self.memory["aggregate"] + mean
        return self.memory["aggregate"].copy()
