"""Arrays from whatever people hand in: numpy's, torch's, lists of numbers."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.errors import in_a_line

REAL = "fiu"
"""Numpy's kinds of types that hold real numbers: floating-point numbers and integers."""
PLAIN = f"b{REAL}"
"""The same with truth values: what arrays on disk may hold."""


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch's."""
    # Where torch is not imported nobody has a tensor.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def real_numbers(value: Any) -> npt.NDArray[Any]:
    """Return an array of real numbers; a `ValueError` says why there is none."""
    try:
        if is_tensor(value):
            value = value.detach().cpu()
            # Numpy has no short floating-point numbers of torch's kinds.
            is_short = value.is_floating_point() and value.element_size() < 8
            value = (value.float() if is_short else value).numpy()
        array = np.asarray(value)
    # A class of anybody's may refuse in any way.
    except Exception as error:
        raise ValueError(in_a_line(error)) from error
    if array.dtype.kind not in REAL:
        raise ValueError(f"it is an array of {array.dtype}")
    return array
