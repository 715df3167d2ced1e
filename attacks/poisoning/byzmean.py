"""ByzMean. Xu et al., Byzantine-robust FL through collaborative malicious gradient filtering, ICDCS 2022."""

from typing import Annotated

from annotated_types import Ge

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import deviation_of_rows, finite_honest_updates, in_single_precision, known_rows, mean_of_rows


@attack("byzmean", title="ByzMean", knows=["own data", "attackers' updates", "honest updates"])
class ByzMean(Attack):
    r"""Send a bad vector v with half of the attackers, and with the others what makes v the mean of all updates.

    $$ v = \mu - z \sigma, \quad m_1 = \lfloor m / 2 \rfloor, \quad
    w = \frac{(n - m_1) v - \sum_i g_i}{m - m_1} $$

    Of m attackers among n participants, m1 send v and the others w; g are the honest updates, whose mean and standard
    deviation are in v. The mean of all updates is that with equal weights. The authors' code has the number of honest
    updates in place of n and adds up those of attackers too, so that the mean is not v. Buffers stay as trained.
    """

    z: Annotated[float, Ge(0), "standard deviations of v from the honest mean"] = 0.5

    def poison_updates(self, known: Known) -> Matrix:
        rows, attackers = known_rows(known), len(known.updates)
        honest, first = len(finite_honest_updates(known)), attackers // 2
        mean = mean_of_rows(rows)
        bad = mean - self.z * deviation_of_rows(rows)
        rest = ((honest + attackers - first) * bad - honest * mean) / (attackers - first)
        parameters = known.columns.parameters
        known.updates[:first, parameters] = in_single_precision(bad)
        known.updates[first:, parameters] = in_single_precision(rest)
        return known.updates
