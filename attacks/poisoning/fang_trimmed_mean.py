"""Attack on trimmed mean and median. Fang, Cao, Jia, Gong, Local model poisoning attacks, USENIX Security 2020."""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Known, Matrix, attack, over_columns

from ._crafted_rows import (
    AttackByKnowledge,
    Numbers,
    deviation_of_rows,
    in_single_precision,
    known_rows,
    mean_of_rows,
)


@attack("fang-trimmed-mean", title="Fang, trimmed mean", knows=["own data", "attackers' updates", "honest updates"])
class FangTrimmedMean(AttackByKnowledge):
    r"""Draw every coordinate just outside the honest values, on the side that the model does not move to.

    Where the mean of the honest updates is negative, values are drawn above their maximum M, in

    $$ [M, b M] \text{ if } M > 0, \text{ else } [M, M / b] $$

    and elsewhere below their minimum, by the same formula for the opposite numbers. With partial knowledge, they are 3
    to 4 standard deviations of the attackers' own updates from the mean of these. Each attacker draws its own values;
    later code of the authors' group sends one end of the interval, or its middle, with all of them.
    Updates take the place of the paper's models, as in its authors' code. Buffers stay as trained.
    """

    b: Annotated[float, Gt(1), "how far beyond the honest values, as a multiple"] = 2.0

    def poison_updates(self, known: Known) -> Matrix:
        rows = known_rows(known, self.knowledge)
        partial = self.knowledge == "partial"
        first, last = intervals_of_own(rows) if partial else intervals_beyond(rows, self.b)
        for row in known.updates:
            drawn = known.rng.random(len(first))
            row[known.columns.parameters] = in_single_precision(first + drawn * (last - first))
        return known.updates


def intervals_beyond(rows: Matrix, b: float) -> tuple[Numbers, Numbers]:
    """Return the ends of the intervals next to the largest or the smallest value of every coordinate."""
    highest = over_columns(rows, lambda block: block.max(0)).astype(np.float64)
    lowest = over_columns(rows, lambda block: block.min(0)).astype(np.float64)
    upwards = mean_of_rows(rows) < 0
    end = np.where(upwards, highest, lowest)
    return end, end * np.where((end > 0) == upwards, b, 1 / b)


def intervals_of_own(rows: Matrix) -> tuple[Numbers, Numbers]:
    """Return the ends of the intervals 3 to 4 standard deviations from the mean, against its sign."""
    mean = mean_of_rows(rows)
    away = np.where(mean < 0, 1, -1) * deviation_of_rows(rows)
    return mean + 3 * away, mean + 4 * away
