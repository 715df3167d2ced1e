"""Mean of the updates with the smallest norms. An example."""

import numpy as np

from fflbench.plugin import Matrix, Vector, rule


@rule("smallest-norms", title="Smallest norms", tolerates="f < n/2")
def smallest_norms(updates: Matrix, f: int, norms: Vector) -> Vector:
    """Average the n - f updates with the smallest norms."""
    kept = np.argsort(norms, kind="stable")[: len(updates) - f]
    return updates[kept].mean(0)
