"""Min-Max. Shejwalkar, Houmansadr, Manipulating the Byzantine, NDSS 2021."""

import numpy as np

from fflbench.plugin import Known, Matrix, attack, gram

from ._crafted_rows import (
    AttackByKnowledge,
    Direction,
    Numbers,
    distances_to_mean,
    inner_products,
    known_rows,
    mean_of_rows,
    opposite_direction,
    send_same_row,
)


@attack("min-max", title="Min-Max", knows=["own data", "attackers' updates", "honest updates"])
class MinMax(AttackByKnowledge):
    r"""Move the mean as far as possible without being farther from an honest update than two of those are apart.

    $$ \mu + \gamma p, \quad \max \gamma: \max_i \|\mu + \gamma p - g_i\| \le \max_{i,j} \|g_i - g_j\| $$

    The direction p leads away from the mean. The squared distances are quadratic in gamma, whose largest value is
    computed; the paper approximates it by a search. Buffers stay as trained.
    """

    direction: Direction = "unit"

    def poison_updates(self, known: Known) -> Matrix:
        rows = known_rows(known, self.knowledge)
        mean = mean_of_rows(rows)
        direction = opposite_direction(self.direction, rows, mean)
        return send_same_row(known, mean + largest_step(rows, direction) * direction)


def largest_step(rows: Matrix, direction: Numbers) -> float:
    """Return the longest step from the mean that keeps every row within the largest distance of two rows."""
    square = float(direction @ direction)
    if square == 0:
        return 0.0
    products, along = gram(rows), inner_products(rows, direction)
    norms = products.diagonal()
    bound = (norms[:, None] + norms - 2 * products).max()
    # The squared distance to row i is a_i + 2 b_i step + square step^2, and a_i is within the bound.
    b, slack = along.mean() - along, np.maximum(bound - distances_to_mean(products), 0)
    return float(((np.sqrt(b**2 + square * slack) - b) / square).min())
