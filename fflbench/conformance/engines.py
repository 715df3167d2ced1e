"""Checks of engines."""

from typing import Any

import numpy as np
import torch

from fflbench.conformance.check_registry import (
    register_check,
    require,
    require_array,
    require_same_bits,
    require_unchanged,
)
from fflbench.conformance.small_federation import BinaryDigits, DropoutDigits, SmallDigits, small_task
from fflbench.engines.engine import Engine, LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.loop import Loop
from fflbench.errors import ParameterError
from fflbench.federation.rounds import new_model
from fflbench.registry import Entry, Kind
from fflbench.types import Indices, Matrix, Vector

ROUNDING = 1e-3
"""Largest difference between engines, relative to the largest change of a weight."""
TRAINED = np.array([0, 2, 3])
HELD = [np.arange(start, start + count) for start, count in ((0, 30), (30, 10), (40, 25), (65, 7))]
"""Examples of four participants, in different numbers."""


def small_training_inputs(kind: type[SmallDigits] = SmallDigits, **fields: Any) -> tuple[FlatModel, LocalData, Vector]:
    """Return a small model, local data and the model's weights."""
    task = small_task(kind, local_epochs=2, **fields)
    data = task.data().train
    model = FlatModel(new_model(task, 0), torch.device("cpu"))
    local = LocalData(torch.from_numpy(data.x), torch.from_numpy(data.y), HELD, 0, task)
    return model, local, model.flat.numpy().copy()


def train_with_engine(entry: Entry, participants: Indices = TRAINED, round: int = 0, **fields: Any) -> Matrix:
    """Return the updates of an engine."""
    model, data, weights = small_training_inputs(**fields)
    engine: Engine = entry.target(model, data)
    return engine.train(weights, participants, round)


@register_check(Kind.ENGINE)
def check_update_shape(entry: Entry) -> None:
    """Check that updates are float32, with one row per participant and one number per column."""
    columns = len(small_training_inputs()[2])
    for participants in (TRAINED, TRAINED[:1]):
        require_array(entry, "updates", train_with_engine(entry, participants), (len(participants), columns))


@register_check(Kind.ENGINE)
def check_determinism(entry: Entry) -> None:
    """Check that the same weights, data and round give the same bits."""
    require_same_bits(entry, lambda: train_with_engine(entry), lambda: train_with_engine(entry, round=1))


@register_check(Kind.ENGINE)
def check_inputs_unchanged(entry: Entry) -> None:
    """Check that the global weights and the data stay as they are."""
    model, data, weights = small_training_inputs()
    with require_unchanged(entry, weights=weights, inputs=data.x, labels=data.y):
        entry.target(model, data).train(weights, TRAINED, 0)


@register_check(Kind.ENGINE)
def check_same_as_loop(entry: Entry) -> None:
    """Check that updates are those of training one participant after the other, up to rounding."""
    for fields in ({}, {"optimizer": "adam", "learning_rate": 0.01}, {"proximal": 0.1}, {"local_steps": 3}):
        _require_same_as_loop(entry, ", ".join(f"{name} = {value}" for name, value in fields.items()), **fields)
    _require_same_as_loop(entry, 'loss = "binary-cross-entropy"', BinaryDigits)
    try:
        _require_same_as_loop(entry, "dropout", DropoutDigits)
    except ParameterError:
        # An engine may refuse models that it cannot train.
        return


def _require_same_as_loop(entry: Entry, setting: str, kind: type[SmallDigits] = SmallDigits, **fields: Any) -> None:
    model, data, weights = small_training_inputs(kind, **fields)
    expected = Loop(model, data).train(weights, TRAINED, 0)
    model, data, weights = small_training_inputs(kind, **fields)
    given = entry.target(model, data).train(weights, TRAINED, 0)
    bound = ROUNDING * float(np.abs(expected).max())
    same = given.shape == expected.shape and np.allclose(given, expected, atol=bound)
    require(same, entry, f"gave other updates than training one by one, with {setting or 'its defaults'}")
