"""The compiled engine: small convolutional networks, several examples to a vector register."""

from itertools import islice

import numpy as np
import torch

from fflbench.arrays.compiled_convolutions import LANES, Values
from fflbench.engines.compiled_layers import KINDS
from fflbench.engines.engine import LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.layers import Sequence
from fflbench.engines.losses import loss_gradients
from fflbench.engines.optimizer import Optimizer
from fflbench.types import Indices, Matrix, Vector


class Compiled:
    """Engine that trains one participant at a time on the processor, with convolutions compiled for the model."""

    def __init__(self, model: FlatModel, data: LocalData) -> None:
        self.model, self.data = model, data
        self.layers: Sequence[Values] = Sequence(model.model, KINDS, "compiled")

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Train each participant's model from the same start."""
        updates = np.empty((len(participants), len(weights)), np.float32)
        for participant, row in zip(participants, updates, strict=True):
            row[:] = self._train_one(weights, self.data.example_order(int(participant), round))
        return updates

    def _train_one(self, weights: Vector, order: Indices) -> Vector:
        task = self.data.task
        trained = weights.copy()
        optimizer = Optimizer(task, torch.from_numpy(trained))
        gradient = optimizer.gradient.numpy()
        self.layers.bind(self._views(trained), self._views(gradient))
        batches = (np.split(epoch, range(task.batch_size, len(epoch), task.batch_size)) for epoch in order)
        for batch in islice((batch for epoch in batches for batch in epoch), task.local_steps):
            gradient[:] = 0
            for layer in self.layers.layers.values():
                layer.weights_changed()
            for first in range(0, len(batch), LANES):
                self._add_gradients(batch[first : first + LANES], 1 / len(batch))
            optimizer.step()
        return trained - weights

    def _add_gradients(self, examples: Indices, share: float) -> None:
        """Add to the gradients those of some examples, of which each counts with its share of the batch."""
        # Padded with the participant's own last example, which then counts for nothing.
        padded = np.pad(examples, (0, LANES - len(examples)), mode="edge")
        shares = np.where(np.arange(LANES) < len(examples), np.float32(share), np.float32(0))
        inputs = self.data.x.numpy()[padded]
        h = inputs.reshape(LANES, -1).T.copy().reshape(*inputs.shape[1:], LANES)
        outputs = self.layers.forward(h)
        slopes = loss_gradients(self.data.task, torch.from_numpy(outputs.T), self.data.y[torch.from_numpy(padded)])
        self.layers.backward(slopes.numpy().T * shares)

    def _views(self, flat: Vector) -> dict[str, Values]:
        """Return the tensors of the model, as views of a vector."""
        columns = self.model.columns
        return {name: flat[span].reshape(columns.shapes[name]) for name, span in columns.spans.items()}
