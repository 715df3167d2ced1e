"""Rounds of a federation, in six steps: select, train, poison, transmit, aggregate, evaluate.

Everything random comes from named streams of one seed. The partition and the attackers depend on the seed, selection on
the seed and the round, batches and noise on the seed, the participant and the round: two defenses are compared on the
same data, attackers and batches.
"""

import copy
import functools
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from fflbench import kernels
from fflbench.conversion import PLAIN
from fflbench.data import Data, Examples
from fflbench.errors import ParameterError
from fflbench.federation.attack import Attack, Known
from fflbench.federation.chain import Chain
from fflbench.federation.evaluation import Evaluation
from fflbench.federation.rule import NoAnswerError
from fflbench.federation.training import FlatModel, Holdings, engine
from fflbench.federation.transport import Deviation, Setting
from fflbench.federation.views import Transcript, read_only
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Inputs, Labels, Matrix, State, Vector

EXPLODED = float(np.sqrt(np.finfo(np.float32).max))
"""Bound on weights: the square of a larger one overflows in single precision, so the server keeps its model instead."""

P = ParamSpec("P")
R = TypeVar("R")


def timed(step: Callable[P, R]) -> Callable[P, R]:
    """Add the seconds of a step to its federation's `seconds`."""

    @functools.wraps(step)
    def measured(*args: P.args, **kwargs: P.kwargs) -> R:
        start = time.perf_counter()
        try:
            return step(*args, **kwargs)
        finally:
            seconds: dict[str, float] = args[0].seconds  # type: ignore[attr-defined]
            seconds[step.__name__] = seconds.get(step.__name__, 0.0) + time.perf_counter() - start

    return measured


class Federation:
    """A federation of one task, one attack, one defense and one seed."""

    def __init__(
        self,
        task: Task,
        attack: Attack,
        defense: Chain,
        seed: int,
        *,
        deviation: Deviation | None = None,
        device: str = "cpu",
    ) -> None:
        self.task, self.attack, self.defense, self.seed, self.deviation = task, attack, defense, seed, deviation
        if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
            raise ParameterError(f'device "{device}" is not here; use cpu')
        attack.memory = {}
        data = task.data()
        held = task.divide(data.train.y, seed)
        self.attackers = _attackers(task, attack, seed)
        with one_thread():
            self.model = FlatModel(new_model(task, seed), torch.device(device))
            self.weights: Vector = self.model.flat.cpu().numpy().copy()
            x, y = _poisoned(data, held, self.attackers, task, attack, seed)
            pool = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
            self.engine = engine(self.model, Holdings(*pool, held, seed, task))
            if deviation and deviation.needs_clean_updates:
                clean = torch.from_numpy(data.train.x).to(device), torch.from_numpy(data.train.y).to(device)
                self.honest_engine = engine(self.model, Holdings(*clean, held, seed, task))
            self.evaluation = Evaluation(task, self.model, data.test)
        sizes = np.array([len(indices) for indices in held])
        self.defense.begin(Setting(task.participants, task.per_round, sizes, self.model.columns), seed)
        self.round = 0
        self.recent: list[Vector] = []
        self.history: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self._cleaned: tuple[int, Matrix] = (-1, np.empty((0, 0), np.float32))

    def play(self) -> dict[str, Any]:
        """Run one round and return its history item."""
        with one_thread():
            selected = self.select()
            updates = self.train(selected)
            self.poison(selected, updates)
            transcript = self.transmit(selected, updates)
            kept = self.aggregate(transcript)
            metrics = self.evaluate()
        self._memories()
        self.round += 1
        view = transcript.server
        reported = self.defense.report(transcript)
        item = {
            "round": self.round,
            **metrics,
            "attackers_selected": int(np.isin(selected, self.attackers).sum()),
            "selected": len(selected),
            "f": self.defense.assumed(len(selected), len(view.rows)),
            "dropped": view.dropped.tolist(),
            "kept_because": kept,
            **self._trusts(reported),
        }
        if taken := sorted(item.keys() & reported.keys()):
            raise ParameterError(f'its defense reports "{taken[0]}", which the round reports itself: rename it')
        item |= reported
        self.history.append(item)
        return item

    def _trusts(self, reported: dict[str, Any]) -> dict[str, float]:
        """Return the mean trust of honest participants and of attackers who submitted, where the defense reports it."""
        hostile = {str(who) for who in self.attackers}
        trust = reported.get("trust", {})
        sides = {
            "honest_trust": [value for who, value in trust.items() if who not in hostile],
            "attacker_trust": [value for who, value in trust.items() if who in hostile],
        }
        return {name: fmean(values) for name, values in sides.items() if values}

    @timed
    def select(self) -> Indices:
        """Return the participants of this round."""
        return self.defense.select(self.round)

    @timed
    def train(self, selected: Indices) -> Matrix:
        """Return the updates of the selected participants; attackers train on poisoned data."""
        return self.engine.train(self.weights, selected, self.round)

    @timed
    def poison(self, selected: Indices, updates: Matrix) -> None:
        """Replace the attackers' rows by poisoned ones."""
        hostile = np.isin(selected, self.attackers)
        rows, knows = np.flatnonzero(hostile), self.attack.knows
        honest = updates[~hostile] if {"honest updates", "defense"} & set(knows) else updates[:0]
        groups = [rows] if "attackers' updates" in knows else [rows[[place]] for place in range(len(rows))]
        for group in filter(len, groups):
            declared: dict[str, Any] = {}
            if "honest updates" in knows:
                declared["honest updates"] = read_only(honest)
            if "defense" in knows:
                declared["defense"] = functools.partial(self._simulate, selected, group, read_only(honest))
            known = Known(
                round=self.round,
                weights=read_only(self.weights),
                participants=selected[group],
                selected=len(selected),
                updates=updates[group],
                columns=self.model.columns,
                task=self.task,
                rng=stream(self.seed, "attack", self.round, *map(int, selected[group])),
                declared=declared,
            )
            poisoned = self.attack.poison_updates(known)
            if getattr(poisoned, "shape", None) != known.updates.shape:
                raise ParameterError("poison_updates must return a matrix of the shape of known.updates")
            updates[group] = poisoned

    def _clean(self, attackers: Indices) -> Callable[[Indices], Matrix]:
        """Return a function from attackers to their updates on unpoisoned data, which are trained once per round."""

        def updates(who: Indices) -> Matrix:
            if self._cleaned[0] != self.round:
                self._cleaned = self.round, self.honest_engine.train(self.weights, attackers, self.round)
            return self._cleaned[1][np.searchsorted(attackers, who)]

        return updates

    def _simulate(
        self, selected: Indices, group: Indices, true_honest: Matrix, rows: Matrix, honest: Matrix | None
    ) -> Vector | None:
        """Return the aggregate if the attackers at `group` sent these rows; `honest` is their estimate of others."""
        updates = np.empty((len(selected), rows.shape[1]), np.float32)
        if honest is None:
            # Attackers who do not know each other's updates assume that the others send the mean.
            updates[:] = (true_honest if len(true_honest) else rows).mean(0)
            updates[~np.isin(selected, self.attackers)] = true_honest
        else:
            updates[np.setdiff1d(np.arange(len(selected)), group)] = honest
        updates[group] = rows
        twin = self.defense.simulated(int(stream(self.seed, "simulation", self.round).integers(2**63)))
        change = self._change(twin, self._transmitted(twin, selected, updates))
        return None if isinstance(change, str) else change

    @timed
    def transmit(self, selected: Indices, updates: Matrix, watch: Collection[int] = ()) -> Transcript:
        """Transmit rows to the server, overwriting them; rows that are not finite are dropped."""
        return self._transmitted(self.defense, selected, updates, watch)

    def _transmitted(
        self, defense: Chain, selected: Indices, updates: Matrix, watch: Collection[int] = ()
    ) -> Transcript:
        return defense.transmit(
            self.round,
            read_only(self.weights),
            selected,
            updates,
            attackers=self.attackers,
            deviation=self.deviation,
            clean=self._clean(np.intersect1d(selected, self.attackers)),
            watch=watch,
        )

    @timed
    def aggregate(self, transcript: Transcript) -> str:
        """Update the global model; return why it was kept instead, or an empty text."""
        change = self._change(self.defense, transcript)
        if isinstance(change, str):
            return change
        weights = (self.weights + change).astype(np.float32, copy=False)
        self.model.columns.clamp_variances(weights)
        self.weights = weights
        return ""

    def _change(self, defense: Chain, transcript: Transcript) -> Vector | str:
        """Return the change of the model by a defense, or the reason why the model is kept."""
        try:
            change: Vector = np.asarray(defense.aggregate(transcript))
        except NoAnswerError as reason:
            return str(reason)
        if change.shape != self.weights.shape:
            raise ParameterError(f"the defense's aggregate has shape {change.shape}, not {self.weights.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            # Negated, so that NaN is refused as well.
            if not np.abs(self.weights + change).max(initial=0) < EXPLODED:
                return "the aggregate was not finite or exploded"
        return change

    @timed
    def evaluate(self) -> dict[str, Any]:
        """Return the metrics of the current global model."""
        self.recent = [*self.recent, self.weights][-self.task.average_last :]
        return self.evaluation(self.weights)

    def run(self, report: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        """Run all remaining rounds, calling `report` with the history item of each."""
        while self.round < self.task.rounds:
            report(self.play())

    def final(self) -> dict[str, Any]:
        """Return the metrics of the mean of the last global models, as many as the task averages."""
        if self.task.average_last == 1:
            return self.history[-1]
        with one_thread():
            return self.evaluation(_mean(self.recent))

    def state(self) -> State:
        """Return the state that later rounds depend on, for a checkpoint."""
        arrays = {"weights": self.weights, "recent": np.stack(self.recent or [self.weights])}
        for owner, memory in self._memories().items():
            arrays |= {f"{owner}/{name}": array.copy() for name, array in memory.items()}
        facts = {"round": self.round, "recent": len(self.recent), "history": self.history, "seconds": self.seconds}
        return State(arrays, copy.deepcopy(facts))

    def restore(self, state: State) -> None:
        """Restore a state, so that later rounds give the same bits as without a stop."""
        arrays, facts = state
        weights, recent = arrays["weights"], arrays["recent"]
        if weights.dtype != np.float32 or {weights.shape, recent.shape[1:]} != {self.weights.shape}:
            raise ValueError("the state of another model")
        memories: dict[str, dict[str, npt.NDArray[Any]]] = {owner: {} for owner in self._memories()}
        for key, array in arrays.items():
            owner, _, name = key.partition("/")
            if owner in memories:
                memories[owner][name] = array.copy()
        copied = copy.deepcopy(facts)
        # One assignment: a missing key raises before anything is set.
        self.round, self.history, self.seconds, self.recent, self.weights = (
            *(copied["round"], copied["history"], copied["seconds"]),
            *(list(recent)[: copied["recent"]], weights.copy()),
        )
        self.attack.memory, self.defense.memory = memories.pop("attack"), memories

    def _memories(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Return the memories of attack and defense, or raise an error where they hold anything but arrays."""
        memories = {"attack": self.attack.memory, **self.defense.memory}
        for owner, memory in memories.items():
            for name, value in memory.items():
                if not isinstance(name, str):
                    raise ParameterError(f"the {owner}'s memory[{name!r}] must have a text as its name")
                if not isinstance(value, np.ndarray) or value.dtype.kind not in PLAIN:
                    raise ParameterError(f'the {owner}\'s memory["{name}"] must be an array of numbers')
        return memories


def _attackers(task: Task, attack: Attack, seed: int) -> Indices:
    """Return the first participants of one random order, so that a larger share only adds attackers."""
    order = stream(seed, "attackers").permutation(task.participants)
    return np.sort(order[: attack.count(task.participants)])


def new_model(task: Task, seed: int) -> torch.nn.Module:
    """Return the initial global model, decided by the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(stream(seed, "model").integers(2**63)))
        return task.model()


def _poisoned(
    data: Data, held: list[Indices], attackers: Indices, task: Task, attack: Attack, seed: int
) -> tuple[Inputs, Labels]:
    """Return the training set, with the attackers' examples replaced by poisoned ones."""
    x, y, own_x = data.train.x, data.train.y.copy(), False
    for attacker in attackers:
        mine = held[attacker]
        before = Examples(read_only(x[mine]), read_only(y[mine]))
        after = attack.poison_data(before, task, stream(seed, "data", int(attacker)))
        if len(after) != len(before):
            raise ParameterError(f"poison_data returned {len(after)} examples for {len(before)}")
        y[mine] = after.y
        if after.x is not before.x:
            x, own_x = (x if own_x else x.copy()), True
            x[mine] = after.x
    return x, y


def _mean(models: list[Vector]) -> Vector:
    total = np.zeros(models[0].shape)
    for model in models:
        total += model
    return (total / len(models)).astype(np.float32)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch, BLAS and our kernels to one thread: cells run in parallel, and more could change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with kernels.threads(1):
            yield
    finally:
        torch.set_num_threads(before)
