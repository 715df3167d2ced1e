"""Type aliases of arrays.

A row of a `Matrix` is one participant's update: the change of its model, parameters first, then float buffers.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.float32]
"""Updates, float32: one row per participant, one column per value of the model."""
Vector: TypeAlias = npt.NDArray[np.float32]
"""One update or aggregate, or the weights of a model, float32."""
Coefficients: TypeAlias = npt.NDArray[np.float64]
"""Coefficients of the old rows (second axis) in each new row (first axis)."""
Indices: TypeAlias = npt.NDArray[np.int64]
"""Numbers of participants, rows or examples, counted from 0."""
Labels: TypeAlias = npt.NDArray[np.int64]
"""Class of each example, as a number from 0."""
Inputs: TypeAlias = npt.NDArray[Any]
"""Inputs of a model, one per entry of the first axis: float32, or int64 for indices of words."""


class State(NamedTuple):
    """State that a long computation resumes from: arrays, and facts that JSON can hold."""

    arrays: dict[str, npt.NDArray[Any]]
    facts: dict[str, Any]
