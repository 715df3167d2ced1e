"""Local training of one round beside a plain PyTorch loop, with as many threads on both sides."""

import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.timing import Ratio, compare
from fflbench import registry
from fflbench.data.cache import is_available
from fflbench.engines.engine import LocalData, create_engine
from fflbench.engines.flat_model import FlatModel
from fflbench.registry import Kind
from fflbench.tasks import Task

PLAIN = "plain loop with a DataLoader"
SMALL = {"participants": 20, "per_round": 20, "examples": 200, "local_epochs": 1, "batch_size": 32}
"""Participants of the suite `standard`."""


def dataloader_training(task: Task, local_data: LocalData, selected: list[int]) -> Callable[[], object]:
    """Train with a DataLoader, a fresh copy of the global model and torch's optimiser for every participant."""
    model = task.model()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    sets = [TensorDataset(local_data.x[local_data.indices[k]], local_data.y[local_data.indices[k]]) for k in selected]

    def train() -> None:
        for own in sets:
            model.load_state_dict(start)
            if task.optimizer == "adam":
                optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), task.learning_rate)
            else:
                optimizer = torch.optim.SGD(model.parameters(), task.learning_rate, momentum=task.momentum)
            for _ in range(task.local_epochs):
                for x, y in DataLoader(own, task.batch_size, shuffle=True):
                    optimizer.zero_grad()
                    if task.loss == "cross-entropy":
                        F.cross_entropy(model(x), y).backward()
                    else:
                        F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float()).backward()
                    optimizer.step()

    return train


def load_local_data(task: Task) -> LocalData:
    """Return the examples that the participants of a task hold."""
    data = task.data()
    held = task.divide(data.train.y, seed=0)
    return LocalData(torch.from_numpy(data.train.x), torch.from_numpy(data.train.y), held, 0, task)


def has_task_data(name: str) -> bool:
    """Return whether a task's data is available, and print a message if not."""
    task: Task = registry.get(Kind.TASK, name).create()
    if task.data_set and not is_available(task.data_set):
        print(f"{name} is left out: its data is not available (fflbench data fetch {task.data_set.name})")
        return False
    return True


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield ratios of tasks with small models on one thread, and of Adult on all threads too."""
    cores = os.cpu_count() or 1
    for name, fields, threads, target in (
        ("digits-mlp", {}, 1, None),
        ("digits-cnn", {}, 1, None),
        ("adult-mlp", {}, 1, 10.0),
        ("adult-mlp", {"participants": 50, "per_round": 50}, 1, 20.0),
        ("adult-mlp", {}, cores, 10.0),
        ("adult-mlp", {"participants": 50, "per_round": 50}, cores, 20.0),
        ("mnist-cnn", {**SMALL, "engine": "loop"}, 1, None),
        ("mnist-cnn", {**SMALL, "engine": "compiled"}, 1, None),
        ("cifar10-cnn", {"engine": "loop"}, 1, None),
        ("cifar10-cnn", {"engine": "compiled"}, 1, None),
    ):
        if not has_task_data(name):
            continue
        torch.set_num_threads(threads)
        task: Task = registry.get(Kind.TASK, name).create(**fields)
        local_data, selected = load_local_data(task), np.arange(task.per_round)
        model = FlatModel(task.model(), torch.device("cpu"))
        weights, trained = model.flat.numpy().copy(), create_engine(model, local_data)

        ours = partial(trained.train, weights, selected, 0)
        what = f"{name}, {task.engine}, local training of {task.per_round}, {threads} thread{'s' * (threads > 1)}"
        yield from compare(what, ours, {PLAIN: (dataloader_training(task, local_data, list(selected)), target)})
