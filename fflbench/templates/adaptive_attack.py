"""The more harmful of two directions, found by simulating the defense. An example."""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack


@attack(
    "harmful-direction",
    title="Harmful direction",
    knows=["own data", "attackers' updates", "honest updates", "defense"],
)
class HarmfulDirection(Attack):
    """Send minus the honest mean or minus its signs, whichever moves the aggregate farther from the honest mean."""

    factor: Annotated[float, Gt(0), "norm of what attackers send, as a multiple of the honest mean's"] = 2.0

    def poison_updates(self, known: Known) -> Matrix:
        if not len(known.honest):
            return known.updates
        mean = known.honest.mean(0)
        best, farthest = known.updates, -1.0
        for direction in (-mean, -np.sign(mean)):
            unit = direction / max(float(np.linalg.norm(direction)), 1e-30)
            row = self.factor * np.linalg.norm(mean) * unit
            rows = np.tile(row, (len(known.updates), 1)).astype(np.float32)
            aggregate = known.simulate(rows)
            if aggregate is None:
                # The server would keep its model.
                continue
            distance = float(np.linalg.norm(aggregate - mean))
            if distance > farthest:
                best, farthest = rows, distance
        return best
