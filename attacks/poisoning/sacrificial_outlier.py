"""A sacrificial outlier beside other poisoned updates: an attack on defenses that learn from the updates themselves.

As a decoy it draws thresholds, principal components and rejections onto itself: masking of outliers by a larger one
(Barnett, Lewis, Outliers in statistical data, 1994).
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import AttackWrapper, Indices, Known, Matrix, attack

from ._crafted_rows import in_single_precision


@attack("sacrificial-outlier", title="Sacrificial outlier", knows=["own data", "attackers' updates"])
class SacrificialOutlier(AttackWrapper):
    """Let one attacker send a huge opposite of its own update, while the others attack.

    The outlier is the first of the attackers in a round; one who is alone attacks instead.
    """

    factor: Annotated[float, Gt(0), "size of the outlier, as a multiple of its sender's own update"] = 100.0

    def change_rows(self, known: Known, participants: Indices, rows: Matrix) -> Matrix:
        sacrificed = participants == known.participants[0]
        if len(known.participants) == 1 or not sacrificed.any():
            return rows
        changed, parameters = rows.copy(), known.columns.parameters
        changed[sacrificed, parameters] = in_single_precision(
            -self.factor * known.updates[0, parameters].astype(np.float64)
        )
        return changed
