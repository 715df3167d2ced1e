"""Type aliases of arrays.

A row of a `Matrix` is one participant's update: the change of its model, parameters first, then float buffers.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.float32]
Vector: TypeAlias = npt.NDArray[np.float32]
Coefficients: TypeAlias = npt.NDArray[np.float64]
"""Coefficients of the old rows (second axis) in each new row (first axis)."""
Indices: TypeAlias = npt.NDArray[np.int64]
Labels: TypeAlias = npt.NDArray[np.int64]
Inputs: TypeAlias = npt.NDArray[Any]


class State(NamedTuple):
    """State that a long computation resumes from: arrays, and facts that JSON can hold."""

    arrays: dict[str, npt.NDArray[Any]]
    facts: dict[str, Any]
