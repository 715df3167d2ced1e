"""Rounds of a federation, in six steps: select, train, poison, transmit, aggregate, evaluate.

Everything random comes from named streams of one seed. The partition and the attackers depend on the seed, selection on
the seed and the round, batches and noise on the seed, the participant and the round: two defenses are compared on the
same data, attackers and batches.
"""

import copy
import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from fflbench.arrays import kernels
from fflbench.arrays.conversion import PLAIN
from fflbench.data import Examples
from fflbench.engines.engine import LocalData, create_engine
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.loop import Loop
from fflbench.errors import ParameterError
from fflbench.federation.attack import Attack, AttackSetting, Goal, Known, LocalTraining
from fflbench.federation.chain import Chain
from fflbench.federation.evaluation import Evaluation
from fflbench.federation.rule import NoAnswerError
from fflbench.federation.transport import Deviation, Setting
from fflbench.federation.views import Transcript, read_only
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, State, Vector

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
    """A federation of one task, one attack, one defense and one seed.

    Where the attack has no goal, the model is scored for the goals of other attacks, if given.
    """

    def __init__(
        self,
        task: Task,
        attack: Attack,
        defense: Chain,
        seed: int,
        *,
        deviation: Deviation | None = None,
        goals: Sequence[Attack] = (),
        device: str = "cpu",
    ) -> None:
        self.task, self.attack, self.defense, self.seed, self.deviation = task, attack, defense, seed, deviation
        if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
            raise ParameterError(f'device "{device}" is not here; use cpu')
        self.data = task.data()
        self.held = task.divide(self.data.train.y, seed)
        self.attackers = _attackers(task, attack, seed)
        with one_thread():
            self.model = FlatModel(new_model(task, seed), torch.device(device))
            self.weights: Vector = self.model.flat.cpu().numpy().copy()
            # The server's own examples stand last, as those of one more participant.
            indices = [*self.held, task.root(self.data.train.y, seed)]
            self._clean_pool = self._tensors(self.data.train)
            self.local = LocalData(*self._clean_pool, indices, seed, task)
            self.engine = create_engine(self.model, self.local)
            if deviation and deviation.needs_clean_updates:
                self.honest_engine = create_engine(self.model, LocalData(*self._clean_pool, indices, seed, task))
            self.evaluation = Evaluation(task, self.model, self.data.test, self._goals(goals))
        attack.begin(AttackSetting(task, self.attackers, self.model.columns, stream(seed, "attack", "begin")))
        sizes = np.array([len(own) for own in self.held])
        self.defense.begin(Setting(task.participants, task.per_round, sizes, self.model.columns), seed)
        self.round = 0
        self.recent: list[Vector] = []
        self.history: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self.momentum: Matrix = np.empty((0, 0), np.float32)
        self._root: tuple[int, Vector] = (-1, np.empty(0, np.float32))
        self._cleaned: tuple[int, Matrix] = (-1, np.empty((0, 0), np.float32))

    def _tensors(self, examples: Examples) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.model.flat.device
        return torch.from_numpy(examples.x).to(device), torch.from_numpy(examples.y).to(device)

    def _goals(self, others: Sequence[Attack]) -> list[Goal]:
        """Return the goals that models are scored for: the attack's own, or those of other attacks."""
        test = Examples(read_only(self.data.test.x), read_only(self.data.test.y))
        goals = [
            goal
            for attack in ([self.attack] if self.attack.targeted else others)
            if (goal := attack.goal(test, self.task)) is not None
        ]
        for goal in goals:
            _check_goal(goal)
        return goals

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
            "f": self.defense.assumed(len(selected), len(view.rows), view.attackers),
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
        hostile = np.isin(selected, self.attackers)
        self._poison_data(selected[hostile])
        by_attack = hostile & self.attack.overrides("train")
        if not by_attack.any():
            return self._with_momentum(selected, self.engine.train(self.weights, selected, self.round))
        updates = np.empty((len(selected), len(self.weights)), np.float32)
        if not by_attack.all():
            updates[~by_attack] = self.engine.train(self.weights, selected[~by_attack], self.round)
        for place in np.flatnonzero(by_attack):
            updates[place] = self._train_attacker(int(selected[place]))
        return self._with_momentum(selected, updates)

    def _poison_data(self, attackers: Indices) -> None:
        """Replace the examples of attackers by those that they train on in this round."""
        if not self.attack.overrides("poison_data"):
            return
        clean, pool = self.data.train, self.local
        for attacker in map(int, attackers):
            own = self.held[attacker]
            before = Examples(read_only(clean.x[own]), read_only(clean.y[own]))
            rng = stream(self.seed, "data", attacker, self.round)
            after = self.attack.poison_data(before, self.task, self.round, rng)
            if np.shape(after.x) != before.x.shape or np.shape(after.y) != before.y.shape:
                raise ParameterError("poison_data must return as many examples as it receives, of the same shape")
            # The pool shares its memory with the data set until attackers change it.
            if pool.y is self._clean_pool[1]:
                pool.y = pool.y.clone()
            if after.x is not before.x and pool.x is self._clean_pool[0]:
                pool.x = pool.x.clone()
            if pool.x is not self._clean_pool[0]:
                pool.x[own] = torch.as_tensor(np.ascontiguousarray(after.x), dtype=pool.x.dtype).to(pool.x.device)
            pool.y[own] = torch.as_tensor(np.ascontiguousarray(after.y), dtype=pool.y.dtype).to(pool.y.device)

    def _train_attacker(self, attacker: int) -> Vector:
        """Return the update of an attacker who trains in its own way."""
        local = LocalTraining(
            Loop(self.model, self.local),
            round=self.round,
            participant=attacker,
            weights=read_only(self.weights),
            task=self.task,
            rng=stream(self.seed, "attack", "train", self.round, attacker),
        )
        update = self.attack.train(local)
        if getattr(update, "shape", None) != self.weights.shape:
            raise ParameterError(f"train must return a vector of {len(self.weights)} numbers")
        return update

    def _with_momentum(self, selected: Indices, updates: Matrix) -> Matrix:
        r"""Return what participants send: $m_t = \beta m_{t-1} + (1 - \beta) u_t$, or $u_t$ without worker momentum.

        Karimireddy et al. (Learning from history for Byzantine robust optimization, ICML 2021). Participants begin with
        their first update; buffers of the model have no momentum.
        """
        if beta := self.task.worker_momentum:
            columns = self.model.columns.parameters
            if not len(self.momentum):
                self.momentum = np.full((self.task.participants, columns.stop), np.nan, np.float32)
            before, now = self.momentum[selected], updates[:, columns]
            first = np.isnan(before[:, :1])
            now[:] = np.where(first, now, beta * before + (1 - beta) * now)
            self.momentum[selected] = now
        return updates

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
        transcript = defense.transmit(
            self.round,
            read_only(self.weights),
            selected,
            updates,
            attackers=self.attackers,
            deviation=self.deviation,
            clean=self._clean(np.intersect1d(selected, self.attackers)),
            watch=watch,
        )
        if defense.rule.needs_root_update:
            transcript.server = replace(transcript.server, root_update=read_only(self._root_update()))
        return transcript

    def _root_update(self) -> Vector:
        """Return the update of the server's own examples, which is trained once per round."""
        if self._root[0] != self.round:
            server = np.array([self.task.participants])
            self._root = self.round, self.engine.train(self.weights, server, self.round)[0]
        return self._root[1]

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
        """Return the metrics of the current global model; none in rounds that the task does not evaluate."""
        self.recent = [*self.recent, self.weights][-self.task.average_last :]
        number = self.round + 1
        due = number % self.task.evaluate_every == 0 or number == self.task.rounds
        return self.evaluation(self.weights) if due else {}

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
        recent = np.stack(self.recent or [self.weights])
        arrays = {"weights": self.weights, "recent": recent, "momentum": self.momentum.copy()}
        for owner, memory in self._memories().items():
            arrays |= {f"{owner}/{name}": array.copy() for name, array in memory.items()}
        facts = {"round": self.round, "recent": len(self.recent), "history": self.history, "seconds": self.seconds}
        return State(arrays, copy.deepcopy(facts))

    def restore(self, state: State) -> None:
        """Restore a state, so that later rounds give the same bits as without a stop."""
        arrays, facts = state
        weights, recent, momentum = arrays["weights"], arrays["recent"], arrays["momentum"]
        if weights.dtype != np.float32 or {weights.shape, recent.shape[1:]} != {self.weights.shape}:
            raise ValueError("the state of another model")
        memories: dict[str, dict[str, npt.NDArray[Any]]] = {owner: {} for owner in self._memories()}
        for key, array in arrays.items():
            owner, _, name = key.partition("/")
            if owner in memories:
                memories[owner][name] = array.copy()
        copied = copy.deepcopy(facts)
        # One assignment: a missing key raises before anything is set.
        self.round, self.history, self.seconds, self.recent, self.weights, self.momentum = (
            *(copied["round"], copied["history"], copied["seconds"]),
            *(list(recent)[: copied["recent"]], weights.copy(), momentum.copy()),
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


def _check_goal(goal: Any) -> None:
    """Raise an error for a goal that cannot be scored."""
    if not isinstance(goal, Goal) or not len(goal.examples) == len(goal.examples.x) == len(goal.labels) > 0:
        raise ParameterError("goal must return a Goal with one label for each of its examples, and at least one")


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
