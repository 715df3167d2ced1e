"""The digits that come with scikit-learn: 1,797 images of 8 x 8 (UCI, Alpaydin and Kaynak, 1998)."""

import functools

import numpy as np

from fflbench.data.examples import Data
from fflbench.randomness import fixed_split


@functools.cache
def load() -> Data:
    """Pixels from 0 to 1, four fifths to learn from."""
    from sklearn.datasets import load_digits

    pixels, y = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    train, test = fixed_split(len(y))
    return Data.of(x[train], y[train], x[test], y[test])
