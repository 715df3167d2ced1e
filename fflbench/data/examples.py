"""Training and test data of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fflbench.arrays.conversion import real_numbers
from fflbench.errors import DataError
from fflbench.types import Inputs, Labels


@dataclass(frozen=True)
class Examples:
    """Inputs of a model, and the class of each."""

    x: Inputs
    """Inputs, one per example."""
    y: Labels
    """Classes, one per example, as numbers from 0."""

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Data:
    """Training set, test set, and facts about them that a model's shape depends on."""

    train: Examples
    """Training set, which is divided among participants."""
    test: Examples
    """Test set, on which the global model is evaluated."""
    facts: Mapping[str, int] = field(default_factory=dict)
    """Numbers that the model's shape depends on, such as the size of a vocabulary."""

    @classmethod
    def from_arrays(
        cls, x_train: npt.ArrayLike, y_train: npt.ArrayLike, x_test: npt.ArrayLike, y_test: npt.ArrayLike
    ) -> "Data":
        """Return data from arrays, checked and converted to the types that training uses."""
        return cls(_checked_examples("training", x_train, y_train), _checked_examples("test", x_test, y_test))


def _checked_examples(part: str, inputs: npt.ArrayLike, classes: npt.ArrayLike) -> Examples:
    try:
        x, y = real_numbers(inputs), real_numbers(classes)
    except ValueError as error:
        raise DataError(f"the inputs and classes of the {part} set must be numbers ({error})") from error
    if y.ndim != 1 or x.shape[:1] != y.shape or len(y) == 0:
        raise DataError(f"the {part} set needs one class per input, and at least one: got {x.shape} and {y.shape}")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise DataError(f"the classes of the {part} set must be whole numbers from 0, not such as {y.min()}")
    if np.issubdtype(x.dtype, np.floating):
        with np.errstate(over="ignore"):
            x = x.astype(np.float32, copy=False)
        if not np.isfinite(x).all():
            raise DataError(f"the inputs of the {part} set hold values that are not finite in single precision")
    else:
        x = x.astype(np.int64, copy=False)
    return Examples(x, y.astype(np.int64, copy=False))
