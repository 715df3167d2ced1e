"""Checks of tasks; those with large data sets are trained on a few examples."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fflbench import registry
from fflbench.conformance.check_registry import (
    NotCheckedError,
    register_check,
    require,
    require_array,
    require_finite,
    require_same_bits,
)
from fflbench.conformance.engines import ROUNDING
from fflbench.data import Data, Examples
from fflbench.data.cache import is_available
from fflbench.engines.engine import LocalData, create_engine
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.loop import Loop
from fflbench.engines.losses import losses
from fflbench.federation.rounds import new_model
from fflbench.registry import Entry, Kind
from fflbench.tasks import Task
from fflbench.types import Matrix

FEW = 1000
"""Examples whose values are looked at."""
BATCH = 2


def create_task_with_data(entry: Entry) -> Task:
    """Return the task, or raise a `NotCheckedError` if its data set is not here."""
    task: Task = entry.create()
    if task.data_set is not None and not is_available(task.data_set):
        raise NotCheckedError(f"{entry} cannot be checked: its data set {task.data_set.title} is not here")
    return task


def _first_examples(examples: Examples, count: int = FEW) -> Examples:
    return Examples(np.array(examples.x[:count]), np.array(examples.y[:count]))


@register_check(Kind.TASK)
def check_data(entry: Entry) -> None:
    """Check that both parts have finite inputs of one shape, as float32 or int64, and labels of the task's classes."""
    task = create_task_with_data(entry)
    whole = task.data()
    require(isinstance(whole, Data), entry, f"returned {type(whole).__name__} from data(), and must return Data")
    for part, examples in (("training", whole.train), ("test", whole.test)):
        few = _first_examples(examples)
        require(len(examples), entry, f"has no examples in the {part} part")
        kind = "int64" if np.issubdtype(few.x.dtype, np.integer) else "float32"
        require_array(entry, f"inputs of the {part} part", few.x, (len(few), *whole.train.x.shape[1:]), kind)
        require_array(entry, f"labels of the {part} part", few.y, (len(few),), "int64")
        require_finite(entry, f"inputs of the {part} part", few.x)
        count = len(task.classes)
        known = ((few.y >= 0) & (few.y < count)).all()
        require(known, entry, f"has labels in the {part} part that are none of its {count} classes, 0 to {count - 1}")


@register_check(Kind.TASK)
def check_partition(entry: Entry) -> None:
    """Check that every participant gets training examples, nobody those of another, and the seed decides whose."""
    task = create_task_with_data(entry)
    y = task.data().train.y
    parts = task.divide(y, 0)
    require(len(parts) == task.participants, entry, f"divides data among {len(parts)}, not {task.participants}")
    everything = np.concatenate(parts)
    require(all(len(part) for part in parts), entry, "leaves a participant without training examples")
    require(len(np.unique(everything)) == len(everything), entry, "gives the same training example to two participants")
    inside = everything.min() >= 0 and everything.max() < len(y)
    require(inside, entry, "gives participants examples that the training part does not have")
    require_same_bits(entry, lambda: task.divide(y, 0), lambda: task.divide(y, 1))


@register_check(Kind.TASK)
def check_parameter_count(entry: Entry) -> None:
    """Check that the model has as many parameters without weights as with them."""
    task = create_task_with_data(entry)
    true = sum(parameter.numel() for parameter in task.model().parameters())
    require(task.parameter_count() == true, entry, f"counts {task.parameter_count()} parameters of a model with {true}")


@register_check(Kind.TASK)
def check_model_outputs(entry: Entry) -> None:
    """Check that the model gives one output per class, or one logit with a binary loss, and a finite loss."""
    task = create_task_with_data(entry)
    few = _first_examples(task.data().train, BATCH)
    model = new_model(task, 0).eval()
    with torch.no_grad():
        result = model(torch.from_numpy(few.x))
        count = 1 if task.loss == "binary-cross-entropy" else len(task.classes)
        given, expected = tuple(result.shape), (len(few), count)
        require(given == expected, entry, f"has a model with outputs of shape {given}, and must have {expected}")
        loss = losses(task, result, torch.from_numpy(few.y))
    require(torch.isfinite(loss).all(), entry, "has a model whose loss is not finite before training")


@register_check(Kind.TASK)
def check_attack_defaults(entry: Entry) -> None:
    """Check that attack_defaults name registered attacks and parameters that they accept for this task."""
    task: Task = entry.create()
    for name, given in task.attack_defaults.items():
        registry.get(Kind.ATTACK, name).create(**given).validate(task)


@register_check(Kind.TASK)
def check_trait(entry: Entry) -> None:
    """Check that the trait of property inference is true or false for each example."""
    task = create_task_with_data(entry)
    few = _first_examples(task.data().train)
    require_array(entry, "the trait", task.trait(few), (len(few),), "bool")


class _SmallTraining:
    """A task's model and a few examples of two participants, trained for one batch."""

    def __init__(self, task: Task) -> None:
        few = _first_examples(task.data().train, 2 * BATCH)
        self.task = replace(task, local_steps=1, local_epochs=1, batch_size=BATCH)
        self.model = FlatModel(new_model(task, 0), torch.device("cpu"))
        self.weights = self.model.flat.numpy().copy()
        halves = [np.arange(BATCH), np.arange(BATCH, len(few))]
        self.data = LocalData(torch.from_numpy(few.x), torch.from_numpy(few.y), halves, 0, self.task)

    def train(self, engine: Any, participants: int = 1) -> Matrix:
        updates: Matrix = engine.train(self.weights, np.arange(participants), 0)
        return updates


@register_check(Kind.TASK)
def check_training_step(entry: Entry) -> None:
    """Check that a step of training changes the model, by finite numbers."""
    setting = _SmallTraining(create_task_with_data(entry))
    updates = setting.train(create_engine(setting.model, setting.data))
    require_array(entry, "an update", updates, (1, len(setting.weights)))
    require_finite(entry, "an update", updates)
    require(updates.any(), entry, "has a model that a step of training leaves as it is")


@register_check(Kind.TASK)
def check_determinism(entry: Entry) -> None:
    """Check that the seed decides the initial model to the bit."""
    task = create_task_with_data(entry)
    require_same_bits(entry, lambda: new_model(task, 0).state_dict())


@register_check(Kind.TASK, applies=lambda entry: entry.create().engine != "loop")
def check_same_as_loop(entry: Entry) -> None:
    """Check that the task's engine gives the updates of training one participant after the other, up to rounding."""
    setting = _SmallTraining(create_task_with_data(entry))
    given = setting.train(create_engine(setting.model, setting.data), 2)
    expected = setting.train(Loop(setting.model, setting.data), 2)
    same = np.allclose(given, expected, atol=ROUNDING * float(np.abs(expected).max()))
    require(same, entry, f'gets other updates from its engine "{setting.task.engine}" than from training one by one')
