"""Overstated numbers of examples, by which federated averaging weights updates.

Portnoy, Tirosh, Hendler, Towards federated learning with Byzantine-robust client weighting, 2020.
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from fflbench.plugin import AttackWrapper, Indices, attack


@attack("overstated-examples", title="Overstated examples", knows=["own data"])
class OverstatedExamples(AttackWrapper):
    """Declare a multiple of the examples that attackers hold, so that their updates weigh more.

    Only declared numbers change, in all rounds. Behind the plain transport, rules that ignore weights are not affected;
    fragment exchange lets participants scale their updates by these numbers. A matrix of updates has none, so that
    `fflbench.poison` gives the rows of the wrapped attack.
    """

    factor: Annotated[float, Ge(1), Le(1e6), "multiple of the examples held that attackers declare"] = 10.0

    def declared_examples(self, held: Indices) -> Indices:
        declared: Indices = np.rint(self.factor * super().declared_examples(held)).astype(np.int64)
        return declared
