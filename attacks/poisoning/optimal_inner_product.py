"""Inner product manipulation with the strongest factor. González et al., ByzFL, 2025; Xie et al., UAI 2019."""

from typing import Annotated

from annotated_types import Ge

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import known_rows, mean_of_rows
from ._line_search import farthest_copies


@attack(
    "optimal-inner-product",
    title="Optimal inner product manipulation",
    knows=["own data", "attackers' updates", "honest updates", "defense"],
)
class OptimalInnerProduct(Attack):
    r"""Send the negative multiple of the honest mean that moves the aggregate farthest from it.

    $$ -\tau^* \mu, \qquad \tau^* = \arg\max_{\tau \ge 0}
       \left\lVert F(x_1, \dots, x_{n-m}, -\tau\mu, \dots, -\tau\mu) - \mu \right\rVert $$

    The search starts at 0 with a step of 10 that doubles while the distance grows, and then bisects around the best;
    ByzFL shortens steps by a factor of 0.8 instead. Buffers stay as trained.
    """

    evaluations: Annotated[int, Ge(1), "aggregates that are simulated in a round"] = 20

    @property
    def simulations_per_round(self) -> int:
        return self.evaluations

    def poison_updates(self, known: Known) -> Matrix:
        honest = known_rows(known)
        mean = mean_of_rows(honest)
        return farthest_copies(known, mean, lambda factor: -factor * mean, self.evaluations)
