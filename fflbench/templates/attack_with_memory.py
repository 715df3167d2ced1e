"""The opposite of all that attackers have learned so far. An example."""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Attack, AttackSetting, Known, Matrix, attack


@attack("accumulated-reversal", title="Accumulated reversal", knows=["own data", "attackers' updates"])
class AccumulatedReversal(Attack):
    """Add up the mean updates of the attackers over rounds, and send the sum with the opposite sign."""

    factor: Annotated[float, Gt(0), "multiple of the sum that attackers send"] = 1.0

    def begin(self, setting: AttackSetting) -> None:
        super().begin(setting)
        self.memory["sum"] = np.zeros(setting.columns.count, np.float32)

    def poison_updates(self, known: Known) -> Matrix:
        self.memory["sum"] += known.updates.mean(0)
        parameters = known.columns.parameters
        known.updates[:, parameters] = -self.factor * self.memory["sum"][parameters]
        return known.updates
