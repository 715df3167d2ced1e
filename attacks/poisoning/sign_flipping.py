"""Sign flipping. Li et al., RSA: Byzantine-robust stochastic aggregation methods, AAAI 2019."""

from typing import Annotated

from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import in_single_precision, known_rows, mean_of_rows, send_same_row


@attack("sign-flipping", title="Sign flipping", knows=["own data"])
class SignFlippingOwn(Attack):
    r"""Train honestly, and send the own update with the opposite sign: $-\lambda\, g_i$. Buffers stay as trained."""

    factor: Annotated[float, Gt(0), "multiple of the update"] = 1.0

    def poison_updates(self, known: Known) -> Matrix:
        parameters = known.updates[:, known.columns.parameters]
        parameters[:] = in_single_precision(-self.factor * parameters.astype(float))
        return known.updates


@attack("sign-flipping-mean", title="Sign flipping of the mean", knows=["own data", "honest updates"])
class SignFlippingMean(Attack):
    r"""Send the mean of the honest updates with the opposite sign: $-\lambda\, \mu$. Buffers stay as trained.

    Some libraries call this one sign flipping.
    """

    factor: Annotated[float, Gt(0), "multiple of the mean"] = 1.0

    def poison_updates(self, known: Known) -> Matrix:
        return send_same_row(known, -self.factor * mean_of_rows(known_rows(known)))
