"""Arbitrary vectors. Blanchard et al., Machine learning with adversaries, NeurIPS 2017.

Flipped exponent bits: Hong et al., Terminal brain damage, USENIX Security 2019.
"""

from typing import Annotated, Literal

import numpy as np

from fflbench.plugin import Attack, Known, Matrix, attack

HIGHEST_EXPONENT_BIT = np.uint32(1 << 30)
"""Of a float32: flipped, values below 1 become 2 ** 128 times as large, and those from 1 to 2 infinite or NaN."""


@attack("non-finite", title="Values that are not finite", knows=["own data"])
class NonFinite(Attack):
    """Send NaN or infinity in every parameter, or the own update after a memory fault."""

    sends_finite_rows = False

    values: Annotated[
        Literal["nan", "infinity", "flipped exponents"],
        "NaN, infinity, or the own update with the highest exponent bit of every value flipped, as by a memory fault",
    ] = "nan"

    def poison_updates(self, known: Known) -> Matrix:
        parameters = known.updates[:, known.columns.parameters]
        if self.values == "flipped exponents":
            parameters.view(np.uint32)[:] ^= HIGHEST_EXPONENT_BIT
        else:
            parameters[:] = float(self.values)
        return known.updates
