"""Free riders. Lin, Du, Liu, Free-riders in federated learning, 2019; Fraboni, Vidal, Lorenzi, AISTATS 2021."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Attack, Known, Matrix, attack

from ._crafted_rows import last_global_change, send_without_data


@attack("free-rider", title="Free rider", knows=[])
class FreeRider(Attack):
    """Send an update without training, disguised by noise: the last change of the global model, or no change at all.

    The last change is that since the last round in which a free rider took part, zeros at first. The noise is that of
    the first round in the code of Fraboni et al., where it is later as large as the model's first change and shrinks
    with the rounds; here it stays. Buffers are sent unchanged.
    """

    sends: Annotated[Literal["last change", "zeros"], "update that noise is added to"] = "last change"
    sigma: Annotated[float, Ge(0), "standard deviation of the noise"] = 0.001

    def poison_updates(self, known: Known) -> Matrix:
        change = last_global_change(self.memory, known).astype(np.float64)
        noise = self.sigma * known.rng.standard_normal((len(known.updates), len(change)))
        return send_without_data(known, noise if self.sends == "zeros" else change + noise)
