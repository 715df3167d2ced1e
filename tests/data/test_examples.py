import numpy as np
import pytest
import torch

from fflbench.data import Data
from fflbench.errors import DataError

X, Y = np.zeros((4, 3)), np.array([0, 1, 2, 0])


def test_own_arrays_are_converted_to_the_types_of_training():
    data = Data.from_arrays(X.tolist(), Y.astype(np.uint8), X.astype(int), Y)
    assert data.train.x.dtype == np.float32
    assert data.test.x.dtype == np.int64
    assert data.train.y.dtype == np.int64
    assert len(data.train) == 4


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (X, Y[:3], "one class per input"),
        (X[:0], Y[:0], "at least one"),
        (X, Y.astype(float), "whole numbers from 0"),
        (X, Y - 1, "whole numbers from 0"),
        (X + np.nan, Y, "not finite"),
        (X - np.inf, Y, "not finite"),
        (X + 1e300, Y, "not finite"),
        (1.0, Y, "one class per input"),
        (X.astype(str), Y, "must be numbers"),
    ],
)
def test_arrays_that_cannot_be_learned_from_are_refused(x, y, reason):
    with pytest.raises(DataError, match=f"training set.*{reason}|{reason}.*training set"):
        Data.from_arrays(x, y, X, Y)


def test_tensors_are_taken_whatever_torch_keeps_with_them():
    x, y = torch.ones(4, 2, requires_grad=True), torch.tensor([0, 1, 0, 1])
    assert Data.from_arrays(x, y, x, y).train.x.dtype == np.float32
    with pytest.raises(DataError, match="must be numbers"):
        Data.from_arrays(x.to_sparse(), y, x, y)
