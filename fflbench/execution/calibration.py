"""How long cells will take, from a few batches of each task."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fflbench.tasks import Task

BATCHES = 2


def seconds_per_round(task: Task) -> float:
    """Training and evaluation of one round, measured on a few batches and scaled up; what defenses add is small."""
    import torch

    from fflbench.data import Examples
    from fflbench.federation.evaluation import BATCH, Evaluation
    from fflbench.federation.rounds import one_thread
    from fflbench.federation.training import FlatModel, Holdings, engine

    data = task.data()
    held = task.divide(data.train.y, seed=0)
    short = replace(task, local_epochs=1)
    selected = np.arange(1 if task.engine == "loop" else task.per_round)
    pieces = [indices[: BATCHES * task.batch_size] for indices in held]
    with one_thread():
        model = FlatModel(task.model(), torch.device("cpu"))
        weights = model.flat.numpy().copy()
        x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
        trainer = engine(model, Holdings(x, y, pieces, 0, short))
        trainer.train(weights, selected, 0)
        training = _timed(lambda: trainer.train(weights, selected, 1))
        part = Examples(data.test.x[:BATCH], data.test.y[:BATCH])
        measure = Evaluation(task, model, part)
        measure(weights)
        evaluating = _timed(lambda: measure(weights)) * len(data.test) / len(part)
    batches = task.local_epochs * np.mean([np.ceil(len(indices) / task.batch_size) for indices in held])
    measured = np.mean([np.ceil(len(indices) / task.batch_size) for indices in pieces])
    one_by_one = task.per_round if task.engine == "loop" else 1
    return float(training * batches / measured * one_by_one + evaluating)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
