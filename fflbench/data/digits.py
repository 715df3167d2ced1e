"""Digits that come with scikit-learn: 1,797 images of 8 x 8 (UCI, Alpaydin and Kaynak, 1998)."""

import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fflbench.data.examples import Data
from fflbench.data.train_test_split import fixed_train_test_split
from fflbench.errors import DataError


@functools.cache
def load() -> Data:
    """Return images with pixels from 0 to 1, four fifths of them for training."""
    table = np.loadtxt(_find_digits_file(), delimiter=",")
    pixels, y = table[:, :-1], table[:, -1].astype(np.int64)
    x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    train, test = fixed_train_test_split(len(y))
    return Data.from_arrays(x[train], y[train], x[test], y[test])


def _find_digits_file() -> Path:
    """Return the file in scikit-learn's folder, without the import, which would take longer than training."""
    spec = find_spec("sklearn")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return file
    raise DataError("the digits that come with scikit-learn are not where they were: pip install scikit-learn")
