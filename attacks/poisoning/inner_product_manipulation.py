"""Inner product manipulation. Xie, Koyejo, Gupta, Fall of empires, UAI 2019."""

from typing import Annotated

from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import known_rows, mean_of_rows, send_same_row


@attack("inner-product-manipulation", title="Inner product manipulation", knows=["own data", "honest updates"])
class InnerProductManipulation(Attack):
    r"""Send a negative multiple of the mean of the honest updates, $-\epsilon\, \mu$.

    A small epsilon is close to honest updates and deceives rules that compare distances; one above (n - m) / m,
    with m attackers among n, turns the mean of all updates around. The default is that of the code of centered clipping
    and of bucketing (Karimireddy et al.). Buffers stay as trained.
    """

    epsilon: Annotated[float, Gt(0), "multiple of the mean"] = 0.1

    def poison_updates(self, known: Known) -> Matrix:
        return send_same_row(known, -self.epsilon * mean_of_rows(known_rows(known)))
