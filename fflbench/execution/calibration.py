"""How long cells will take, from a few batches of each task and a round of each defense."""

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from fflbench.data.prepared import is_here
from fflbench.federation import Defense, Sent
from fflbench.federation.defense import NoAnswerError, Setting
from fflbench.measures import columns_of
from fflbench.progress import track
from fflbench.registry import Kind
from fflbench.suites.plan import Cell
from fflbench.tasks import Task
from fflbench.types import Indices

BATCHES = (2, 8)
"""What is measured of each task: the first, and where that is too quick to tell, the second."""
QUICK = 0.5
"""Seconds below which the cost of a call still blurs that of its batches."""
VALUES = 2**24
"""Numbers in a round's updates beyond which a defense is timed on shorter ones."""
LIMIT = 10.0
"""Seconds after which the timing of a defense ends; one that slow is taken to need as much in every round."""
GUESS = 0.01
"""Seconds a participant trains where that cannot be measured."""


def seconds_of(cells: Sequence[Cell]) -> list[float]:
    """About how many seconds each cell takes on one core."""
    alike = {_decides(cell): cell for cell in cells}
    # Once for each task, whatever it is measured with.
    training = functools.cache(lambda key: seconds_per_round(tasks[key]))
    tasks = {_task(cell): cell.create(Kind.TASK) for cell in alike.values()}
    tracked = track(list(alike.items()), "Estimating how long cells take")
    known = {key: _seconds(cell, lambda cell: training(_task(cell))) for key, cell in tracked}
    return [known[_decides(cell)] for cell in cells]


def one_kind(cells: Sequence[Cell]) -> bool:
    """Whether all cells would be estimated alike."""
    return len({_decides(cell) for cell in cells}) < 2


def _task(cell: Cell) -> str:
    return str(cell.configuration[Kind.TASK])


def _decides(cell: Cell) -> str:
    kinds = (Kind.TASK, Kind.MEASURE, Kind.PRIVACY_ATTACK, Kind.DEFENSE)
    return str([cell.configuration.get(kind) for kind in kinds])


def _seconds(cell: Cell, training: Callable[[Cell], float]) -> float:
    task: Task = cell.create(Kind.TASK)
    guess = task.rounds * task.per_round * GUESS
    if cell.data_set and not is_here(cell.data_set):
        # It is on other machines only, and nobody downloads a data set for an estimate.
        return guess
    try:
        defense: Defense = cell.create(Kind.DEFENSE)
        if not cell.measure:
            begin, each_round = defense_seconds(task, defense)
            return begin + task.rounds * (training(cell) + each_round)
        attack = cell.create(cell.measure.attacked) if cell.measure.attacked else None
        return cell.measure.estimate(task, defense, attack)
    except (Exception, SystemExit):
        # Whatever is wrong with it will be told in its cell.
        return guess


def defense_seconds(task: Task, defense: Defense) -> tuple[float, float]:
    """Seconds that a defense takes before the first round, and in each, measured on random updates.

    Where the updates of a round are very large, shorter ones are timed and scaled up.
    """
    from fflbench.federation.rounds import one_thread

    columns = columns_of(task)
    count = max(1, min(columns.count, VALUES // task.per_round))
    short = columns if count == columns.count else columns.shortened(count)
    updates = np.random.default_rng(0).standard_normal((task.per_round, count), dtype=np.float32)
    weights = np.zeros(count, np.float32)
    sizes = np.full(task.participants, task.batch_size)

    def play(round: int) -> None:
        selected = defense.select(round)
        sent = updates[: len(selected)].copy()
        with suppress(NoAnswerError):
            defense.aggregate(defense.transmit(round, weights, selected, Sent(sent, sent)))

    try:
        with one_thread(), _at_most(LIMIT):
            begin = _timed(lambda: defense.begin(Setting(task.participants, task.per_round, sizes, short, 0)))
            play(0)
            return begin, _timed(lambda: play(1)) * columns.count / count
    except _LimitError:
        return 0.0, LIMIT


class _LimitError(BaseException):
    """Not an `Exception`, so that no plugin takes it for one of its own."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End what takes longer, as far as Python code can be ended: a rule may never answer, which its cell reports."""

    def end(*_: object) -> None:
        raise _LimitError

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


def seconds_per_round(task: Task) -> float:
    """Training and evaluation of one round, measured on a few batches and scaled up."""
    import torch

    from fflbench.data import Examples
    from fflbench.federation.evaluation import BATCH, Evaluation
    from fflbench.federation.rounds import one_thread
    from fflbench.federation.training import FlatModel, Holdings, engine

    data = task.data()
    held = task.divide(data.train.y, seed=0)
    short = replace(task, local_epochs=1)
    selected = np.arange(1 if task.engine == "loop" else task.per_round)
    batches = task.local_epochs * _batches(task, held)
    with one_thread():
        model = FlatModel(task.model(), torch.device("cpu"))
        weights = model.flat.numpy().copy()
        x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
        for count in BATCHES:
            pieces = [indices[: count * task.batch_size] for indices in held]
            trainer = engine(model, Holdings(x, y, pieces, 0, short))
            trainer.train(weights, selected, 0)
            seconds = _timed(functools.partial(trainer.train, weights, selected, 1))
            training = seconds * batches / _batches(task, pieces)
            if seconds > QUICK:
                break
        part = Examples(data.test.x[:BATCH], data.test.y[:BATCH])
        measure = Evaluation(task, model, part)
        measure(weights)
        evaluating = _timed(lambda: measure(weights)) * len(data.test) / len(part)
    one_by_one = task.per_round if task.engine == "loop" else 1
    return training * one_by_one + evaluating


def _batches(task: Task, held: Sequence[Indices]) -> float:
    """In how many a participant's examples come, on average."""
    return float(np.mean([np.ceil(len(indices) / task.batch_size) for indices in held]))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
