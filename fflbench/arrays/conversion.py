"""Conversion of arrays, tensors and lists of numbers to numpy arrays."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.errors import error_in_one_line

REAL = "fiu"
"""Kinds of numpy types that hold real numbers: floating-point numbers and integers."""
PLAIN = f"b{REAL}"
"""Kinds of numpy types that arrays on disk may have: real numbers and truth values."""


def is_tensor(value: Any) -> bool:
    """Return whether a value is a torch tensor."""
    # Before torch is imported no value can be a tensor.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def real_numbers(value: Any) -> npt.NDArray[Any]:
    """Return a value as an array of real numbers, or raise a `ValueError` with the reason."""
    try:
        if is_tensor(value):
            value = value.detach().cpu()
            # Numpy lacks some short floating-point types of torch.
            is_short = value.is_floating_point() and value.element_size() < 8
            value = (value.float() if is_short else value).numpy()
        array = np.asarray(value)
    # The conversion of a foreign class may raise anything.
    except Exception as error:
        raise ValueError(error_in_one_line(error)) from error
    if array.dtype.kind not in REAL:
        raise ValueError(f"it is an array of {array.dtype}")
    return array
