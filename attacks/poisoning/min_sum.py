"""Min-Sum. Shejwalkar, Houmansadr, Manipulating the Byzantine, NDSS 2021."""

import math

from fflbench.plugin import Known, Matrix, attack, gram

from ._crafted_rows import (
    AttackByKnowledge,
    Direction,
    distances_to_mean,
    known_rows,
    mean_of_rows,
    opposite_direction,
    send_same_row,
)


@attack("min-sum", title="Min-Sum", knows=["own data", "attackers' updates", "honest updates"])
class MinSum(AttackByKnowledge):
    r"""Move the mean as far as its summed squared distance to honest updates stays within the largest of one of them.

    $$ \mu + \gamma p, \quad \max \gamma: \sum_i \|\mu + \gamma p - g_i\|^2 \le \max_i \sum_j \|g_i - g_j\|^2 $$

    The direction p leads away from the mean. Sums of squares around a point exceed those around the mean by n times its
    squared distance to the mean, so that the step is as long as the largest distance of an honest update to the mean.
    The paper approximates it by a search; its authors' code has the least sum on the right. Buffers stay as trained.
    """

    direction: Direction = "unit"

    def poison_updates(self, known: Known) -> Matrix:
        rows = known_rows(known, self.knowledge)
        mean = mean_of_rows(rows)
        direction = opposite_direction(self.direction, rows, mean)
        square = float(direction @ direction)
        step = math.sqrt(distances_to_mean(gram(rows)).max() / square) if square else 0.0
        return send_same_row(known, mean + step * direction)
