"""Same value. Li et al., RSA: Byzantine-robust stochastic aggregation methods, AAAI 2019."""

from typing import Annotated

import numpy as np

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import send_without_data


@attack("same-value", title="Same value", knows=[])
class SameValue(Attack):
    """Send the same number in every coordinate of the update. Buffers are sent unchanged."""

    value: Annotated[float, "number that is sent"] = 100.0

    def poison_updates(self, known: Known) -> Matrix:
        return send_without_data(known, np.array(self.value))
