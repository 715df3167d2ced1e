"""Keeps the model as it is. A stranger, A plugin from outside, 2026."""

from typing import Annotated

import numpy as np

from fflbench.registration import rule
from fflbench.types import Matrix, Vector


@rule("stranger", title="Stranger's rule")
def stranger(updates: Matrix, step: Annotated[float, "how far the model moves"] = 0.0) -> Vector:
    """Move every coordinate by the same step, whatever was sent."""
    return np.full(updates.shape[1], step, np.float32)
