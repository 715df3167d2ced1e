"""Train/test split of data sets that come without one."""

import numpy as np

from fflbench.types import Indices


def fixed_train_test_split(n: int) -> tuple[Indices, Indices]:
    """Return the indices of n examples for training (four fifths) and for testing, the same for every seed.

    Numpy guarantees the same stream across versions for the legacy generator only (NEP 19).
    """
    order = np.random.RandomState(0).permutation(n)
    return order[: n * 4 // 5], order[n * 4 // 5 :]
