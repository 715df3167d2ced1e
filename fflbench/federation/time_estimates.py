"""Seconds that training and defenses take on this machine, from a few batches and a round with random updates."""

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np

from fflbench.federation.chain import Chain
from fflbench.federation.rule import NoAnswerError
from fflbench.federation.transport import Setting
from fflbench.tasks import Task
from fflbench.types import Indices

T = TypeVar("T")

BATCHES = (2, 8)
"""Numbers of batches that are timed for each task: the first, or the second where that is too fast to measure."""
QUICK = 0.5
"""Seconds below which the overhead of a call distorts the time of its batches."""
ONE_BY_ONE = ("loop", "compiled")
"""Engines whose time grows with the number of participants; of others all are timed."""
VALUES = 2**24
"""Number of values in a round's updates beyond which a defense is timed on shorter ones."""
LIMIT = 10.0
"""Seconds after which the timing of a defense stops; such a defense is assumed to need as much in every round."""


class Timing:
    """Measures the seconds of tasks and defenses, each once."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._known: dict[tuple[str, ...], object] = {}

    def training(self, task: Task) -> float:
        """Return the seconds of training and evaluation in one round."""
        return self.once(lambda: seconds_per_round(task, self.device), task)

    def defense(self, task: Task, defense: Chain) -> tuple[float, float]:
        """Return the seconds that a defense takes before the first round, and per round."""
        parts = defense.transport, *defense.server.preaggregations, defense.rule
        return self.once(lambda: defense_seconds(task, defense), task, *parts)

    def once(self, measured: Callable[[], T], *things: object) -> T:
        """Return the result of a measurement that depends on these things, made once for all that are equal."""
        key = tuple(f"{type(thing)} {getattr(thing, '__dict__', thing)}" for thing in things)
        if key not in self._known:
            self._known[key] = measured()
        seconds: T = self._known[key]  # type: ignore[assignment]
        return seconds


def defense_seconds(task: Task, defense: Chain) -> tuple[float, float]:
    """Return the seconds that a defense takes before the first round, and per round, measured on random updates.

    Where the updates of a round are very large, shorter ones are timed and scaled up.
    """
    from fflbench.arrays.threads import one_thread

    columns = task.columns()
    count = max(1, min(columns.count, VALUES // task.per_round))
    short = columns if count == columns.count else columns.truncated(count)
    updates = np.random.default_rng(0).standard_normal((task.per_round, count), dtype=np.float32)
    weights = np.zeros(count, np.float32)
    sizes = np.full(task.participants, task.batch_size)

    def run_round(round: int) -> None:
        selected = defense.select(round)
        transcript = defense.transmit(round, weights, selected, updates[: len(selected)].copy())
        if defense.rule.needs_root_update:
            transcript.server = replace(transcript.server, root_update=updates[0])
        with suppress(NoAnswerError):
            defense.aggregate(transcript)

    try:
        with one_thread(), _time_limit(LIMIT):
            begin = seconds_of(lambda: defense.begin(Setting(task.participants, task.per_round, sizes, short), 0))
            run_round(0)
            return begin, seconds_of(lambda: run_round(1)) * columns.count / count
    except _TimeUpError:
        return 0.0, LIMIT


class _TimeUpError(BaseException):
    """Raised when the time is up; not an `Exception`, so that no plugin catches it as one of its own."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Stop Python code that takes longer: a rule may never return, which its cell then reports."""

    def end(*_: object) -> None:
        raise _TimeUpError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds_per_round(task: Task, device: str = "cpu") -> float:
    """Return the seconds of one round's training and evaluation, measured on a few batches and scaled up."""
    import torch

    from fflbench.arrays.threads import one_thread
    from fflbench.data import Examples
    from fflbench.engines.engine import LocalData, create_engine
    from fflbench.engines.flat_model import FlatModel
    from fflbench.federation.evaluation import BATCH, Evaluation

    data = task.data()
    held = task.divide(data.train.y, seed=0)
    short = replace(task, local_epochs=1, local_steps=None)
    selected = np.arange(1 if task.engine in ONE_BY_ONE else task.per_round)
    batches = task.local_steps or task.local_epochs * _mean_batches(task, held)
    with one_thread():
        model = FlatModel(task.model(), torch.device(device))
        weights = model.flat.cpu().numpy().copy()
        x, y = (torch.from_numpy(part).to(device) for part in (data.train.x, data.train.y))
        for count in BATCHES:
            pieces = [indices[: count * task.batch_size] for indices in held]
            trainer = create_engine(model, LocalData(x, y, pieces, 0, short))
            trainer.train(weights, selected, 0)
            seconds = seconds_of(functools.partial(trainer.train, weights, selected, 1))
            training = seconds * batches / _mean_batches(task, pieces)
            if seconds > QUICK:
                break
        part = Examples(data.test.x[:BATCH], data.test.y[:BATCH])
        measure = Evaluation(task, model, part)
        measure(weights)
        evaluating = seconds_of(lambda: measure(weights)) * len(data.test) / len(part)
    one_by_one = task.per_round if task.engine in ONE_BY_ONE else 1
    return training * one_by_one + evaluating / task.evaluate_every


def _mean_batches(task: Task, held: Sequence[Indices]) -> float:
    """Return the average number of batches per participant."""
    return float(np.mean([np.ceil(len(indices) / task.batch_size) for indices in held]))


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
