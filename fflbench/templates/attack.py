"""Updates with the opposite sign. An example."""

from typing import Annotated

from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack


@attack("reversed-updates", title="Reversed updates", knows=["own data"])
class ReversedUpdates(Attack):
    """Train honestly, and send a multiple of the update with the opposite sign."""

    factor: Annotated[float, Gt(0), "multiple of the update"] = 3.0

    def poison_updates(self, known: Known) -> Matrix:
        known.updates[:, known.columns.parameters] *= -self.factor
        return known.updates
