"""Seconds a round of local training takes: our two engines beside a loop as an obvious user would write it."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.timing import show, take_turns
from fflbench import registry
from fflbench.data.prepared import is_here
from fflbench.federation.stacked import Stacked
from fflbench.federation.training import FlatModel, Holdings, Loop
from fflbench.registry import Kind
from fflbench.tasks import Task


def plain_loop(task: Task, holdings: Holdings, selected: list[int]) -> Callable[[], object]:
    """A DataLoader, a fresh copy of the global model and torch's optimiser for every participant."""
    model = task.model()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    sets = [TensorDataset(holdings.x[holdings.indices[k]], holdings.y[holdings.indices[k]]) for k in selected]

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


def main() -> None:
    """Every task that is quick enough, one thread each."""
    torch.set_num_threads(1)
    rows = {}
    for name, fields in (
        ("digits-mlp", {}),
        ("digits-cnn", {}),
        ("adult-mlp", {}),
        ("adult-mlp", {"per_round": 20}),
        ("mnist-cnn", {}),
    ):
        task: Task = registry.get(Kind.TASK, name).create(**fields)
        if task.data_set and not is_here(task.data_set):
            print(f"{name} is left out: its data is not here (fflbench data fetch {task.data_set.name})")
            continue
        data = task.data()
        held = task.divide(data.train.y, seed=0)
        holdings = Holdings(torch.from_numpy(data.train.x), torch.from_numpy(data.train.y), held, 0, task)
        selected = np.arange(task.per_round)
        engines = {}
        for label, engine in (("loop", Loop), ("stacked", Stacked)):
            model = FlatModel(task.model(), torch.device("cpu"))
            weights = model.flat.numpy().copy()
            trained = engine(model, holdings)
            engines[label] = partial(trained.train, weights, selected, 0)
        label = f"{name}, {task.per_round} participants (its engine: {task.engine})"
        repeats = 3 if name == "mnist-cnn" else 5
        rows[label] = take_turns(label, {"plain": plain_loop(task, holdings, list(selected)), **engines}, repeats)
    show("A round of local training, one thread", "plain", rows)


if __name__ == "__main__":
    main()
