"""A little is enough with the strongest factor. González et al., ByzFL, 2025; Baruch et al., NeurIPS 2019."""

from typing import Annotated

from annotated_types import Ge

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import deviation_of_rows, known_rows, mean_of_rows
from ._line_search import farthest_copies


@attack(
    "optimal-little-is-enough",
    title="Optimal a little is enough",
    knows=["own data", "attackers' updates", "honest updates", "defense"],
)
class OptimalLittleIsEnough(Attack):
    r"""Move every coordinate of the mean by the number of standard deviations that moves the aggregate farthest.

    $$ \mu - \tau^* \sigma, \qquad \tau^* = \arg\max_{\tau \ge 0}
       \left\lVert F(x_1, \dots, x_{n-m}, \mu - \tau\sigma, \dots, \mu - \tau\sigma) - \mu \right\rVert $$

    The search is that of `optimal-inner-product`. ByzFL adds the deviations; the paper of the attack subtracts them.
    Buffers stay as trained.
    """

    evaluations: Annotated[int, Ge(1), "aggregates that are simulated in a round"] = 20

    @property
    def simulations_per_round(self) -> int:
        return self.evaluations

    def poison_updates(self, known: Known) -> Matrix:
        honest = known_rows(known)
        mean, deviation = mean_of_rows(honest), deviation_of_rows(honest)
        return farthest_copies(known, mean, lambda factor: mean - factor * deviation, self.evaluations)
