"""Columns of an update: a model's tensors, flattened and concatenated.

Parameters come first, in the order of `model.named_parameters()`, then floating-point buffers (a batch normalisation's
running statistics) in the order of `model.named_buffers()`. Integer buffers do not travel.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fflbench.types import Vector

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Columns:
    """Positions of a model's tensors in a row."""

    spans: Mapping[str, slice]
    """Columns of each tensor, by its name in the model."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of each tensor, by its name in the model."""
    parameters: slice
    """Columns that norms, distances, cosines and noise are computed on."""
    last_layer: slice
    """Weight and bias of the output layer."""
    count: int
    """Number of columns."""

    @classmethod
    def of_model(cls, model: "nn.Module") -> "Columns":
        """Return the columns of a model; its last layer is the module that owns the last parameter."""
        spans, shapes, end = {}, {}, 0
        for name, tensor in update_tensors(model):
            spans[name], shapes[name] = slice(end, end + tensor.numel()), tuple(tensor.shape)
            end += tensor.numel()
        names = [name for name, _ in model.named_parameters()]
        layer = names[-1].rpartition(".")[0]
        first = next(name for name in names if name.rpartition(".")[0] == layer)
        end_of_parameters = spans[names[-1]].stop
        return cls(
            spans=spans,
            shapes=shapes,
            parameters=slice(0, end_of_parameters),
            last_layer=slice(spans[first].start, end_of_parameters),
            count=end,
        )

    @classmethod
    def of_length(cls, count: int) -> "Columns":
        """Return columns without known tensors: all are parameters, and all count as the last layer."""
        everything = slice(0, count)
        return cls(spans={}, shapes={}, parameters=everything, last_layer=everything, count=count)

    def truncated(self, count: int) -> "Columns":
        """Return the columns of a smaller model with so many in all, and the same last layer as far as it fits."""
        last = min(self.last_layer.stop - self.last_layer.start, count)
        return Columns({}, {}, slice(0, count), slice(count - last, count), count)

    def clamp_variances(self, weights: Vector) -> None:
        """Raise negative running variances to 0: a rule that adds and subtracts rows may produce them."""
        for name, span in self.spans.items():
            if name.endswith("running_var"):
                np.maximum(weights[span], 0, out=weights[span])


def update_tensors(model: "nn.Module") -> Iterator[tuple[str, "Tensor"]]:
    """Return the tensors that an update contains, in the order of the columns."""
    yield from model.named_parameters()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if buffer.is_floating_point())
