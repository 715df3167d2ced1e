"""The compiled engine: small convolutional networks, several examples to a vector register."""

from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fflbench.arrays.compiled_convolutions import LANES, Values
from fflbench.engines.compiled_layers import KINDS
from fflbench.engines.engine import LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.layers import LayerSequence
from fflbench.engines.losses import loss_gradients
from fflbench.engines.optimizer import Optimizer
from fflbench.types import Indices, Matrix, Vector


class CompiledNetwork:
    """A model's layers on vectors of weights, without the model itself, which refers to this for its evaluation."""

    def __init__(self, model: FlatModel) -> None:
        self.flat, self.columns = model.flat, model.columns
        self.layers: LayerSequence[Values] = LayerSequence(model.model, KINDS, "compiled")

    def bind(self, weights: Vector, gradient: Vector) -> None:
        """Set the weights, and the vector that gradients are added to."""
        self.layers.bind(self._views(weights), self._views(gradient))
        self.weights_changed()

    def weights_changed(self) -> None:
        """Take note of weights that were changed in place."""
        for layer in self.layers.layers.values():
            layer.weights_changed()

    def forward(self, inputs: Values) -> Values:
        """Return the outputs for at most as many examples as fill a register, repeating the last of fewer."""
        filled = np.zeros((LANES, *inputs.shape[1:]), np.float32)
        filled[: len(inputs)] = inputs
        filled[len(inputs) :] = inputs[-1] if len(inputs) else 0
        return self.layers.forward(filled.reshape(LANES, -1).T.copy().reshape(*inputs.shape[1:], LANES))

    def outputs(self, x: Tensor) -> Tensor:
        """Return the outputs of the model with its present weights."""
        weights, inputs = self.flat.numpy(), x.numpy()
        # Nothing is added to gradients, since no backward pass follows.
        self.bind(weights, weights)
        pieces = [self.forward(inputs[first : first + LANES]).T for first in range(0, max(len(x), 1), LANES)]
        return torch.from_numpy(np.concatenate(pieces)[: len(x)])

    def _views(self, flat: Vector) -> dict[str, Values]:
        """Return the tensors of the model, as views of a vector."""
        return {name: flat[span].reshape(self.columns.shapes[name]) for name, span in self.columns.spans.items()}


class Compiled:
    """Engine that trains one participant at a time on the processor, with convolutions compiled for the model."""

    def __init__(self, model: FlatModel, data: LocalData) -> None:
        self.data, self.network = data, CompiledNetwork(model)
        model.faster_forward = self.network.outputs

    def train(self, weights: Vector, participants: Indices, round: int) -> Matrix:
        """Train each participant's model from the same start."""
        updates = np.empty((len(participants), len(weights)), np.float32)
        for participant, row in zip(participants, updates, strict=True):
            row[:] = self._train_one(weights, self.data.example_order(int(participant), round))
        return updates

    def _train_one(self, weights: Vector, order: Indices) -> Vector:
        task, trained = self.data.task, weights.copy()
        optimizer = Optimizer(task, torch.from_numpy(trained))
        gradient = optimizer.gradient.numpy()
        self.network.bind(trained, gradient)
        batches = (np.split(epoch, range(task.batch_size, len(epoch), task.batch_size)) for epoch in order)
        for batch in islice((batch for epoch in batches for batch in epoch), task.local_steps):
            gradient[:] = 0
            for first in range(0, len(batch), LANES):
                self._add_gradients(batch[first : first + LANES], 1 / len(batch))
            optimizer.step()
            self.network.weights_changed()
        return trained - weights

    def _add_gradients(self, examples: Indices, share: float) -> None:
        """Add to the gradients those of some examples, of which each counts with its share of the batch."""
        outputs = self.network.forward(self.data.x.numpy()[examples])[:, : len(examples)]
        slopes = loss_gradients(self.data.task, torch.from_numpy(outputs.T), self.data.y[torch.from_numpy(examples)])
        # Examples that fill up a register have no gradient.
        by_outputs = np.zeros((len(outputs), LANES), np.float32)
        by_outputs[:, : len(examples)] = slopes.numpy().T * np.float32(share)
        self.network.layers.backward(by_outputs)
