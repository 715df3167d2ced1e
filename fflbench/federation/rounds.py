"""Rounds of a federation, in six steps: select, train, poison, transmit, aggregate, evaluate.

Everything random comes from named streams of one seed. The partition and the attackers depend on the seed, selection on
the seed and the round, batches and noise on the seed, the participant and the round: two defenses are compared on the
same data, attackers and batches.
"""

import copy
import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from fflbench.arrays import kernels
from fflbench.arrays.conversion import PLAIN
from fflbench.arrays.threads import one_thread
from fflbench.data import Examples
from fflbench.engines.flat_model import FlatModel
from fflbench.errors import NotFiniteError, ParameterError
from fflbench.federation.attack import Attack, AttackSetting, Goal, checked_goal, poison_rows
from fflbench.federation.chain import Chain
from fflbench.federation.evaluation import Evaluation
from fflbench.federation.participants import Participants
from fflbench.federation.rule import NoAnswerError
from fflbench.federation.simulation import Gram, simulation_seed
from fflbench.federation.transport import Deviation, Setting
from fflbench.federation.views import Transcript, read_only
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, State, Vector

LARGEST_WEIGHT = float(np.sqrt(np.finfo(np.float32).max))
"""Bound on weights: the square of a larger one overflows in single precision, so the server keeps its model instead."""

NOT_FINITE = "the aggregate was not finite or exploded"
"""Reason why a round keeps its model."""

REPORTED_BY_PARTICIPANTS = {"trust": "trust", "trust_of_all": "trust_of_all", "row_weights": "weight"}
"""Reports of rules by participant, and names of their means: trust of senders and of all, weights of senders."""
MEANS_ONLY = ("trust_of_all", "row_weights")
"""Reports of which the history holds only the means: whole, they would be the largest part of records."""

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
        if deviation and deviation.needs_clean_updates and task.worker_momentum:
            raise ParameterError(
                "this deviation needs unpoisoned updates, which have no momentum: leave worker_momentum 0"
            )
        data = task.data()
        with one_thread():
            self.model = FlatModel(new_model(task, seed), torch.device(device))
            self.weights: Vector = self.model.flat.cpu().numpy().copy()
            self.participants = Participants(task, attack, data.train, self.model, seed)
            evaluated = task.evaluated_examples(data, seed)
            self.evaluation = Evaluation(task, self.model, evaluated, _goals(task, attack, goals, evaluated))
        attack.begin(AttackSetting(task, self.attackers, self.model.columns, stream(seed, "attack", "begin")))
        columns, declared = self.model.columns, self.participants.declared_sizes()
        self.defense.begin(Setting(task.participants, task.per_round, declared, columns), seed)
        self.round = 0
        self.recent: list[Vector] = []
        self.history: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self.simulations: int | None = None
        """Number of simulations in the last round, for an attack that knows the defense; their time is in `seconds`."""

    @property
    def attackers(self) -> Indices:
        """Participants that attack, in ascending order."""
        return self.participants.attackers

    def run_round(self) -> dict[str, Any]:
        """Run one round and return its history item."""
        with one_thread():
            selected = self.select()
            updates = self.train(selected)
            self.poison(selected, updates)
            transcript = self.transmit(selected, updates)
            kept = self.aggregate(transcript)
            metrics = self.evaluate()
        self._checked_memories()
        self.round += 1
        view = transcript.server
        reported = self.defense.report(transcript)
        item = {
            "round": self.round,
            **metrics,
            "attackers_selected": int(np.isin(selected, self.attackers).sum()),
            **({} if view.attackers is None else {"attackers_arrived": view.attackers}),
            "selected": len(selected),
            "f": self.defense.assumed_attackers(len(selected), len(view.rows), view.attackers),
            "dropped": view.dropped.tolist(),
            "kept_because": kept,
            **({} if self.simulations is None else {"simulations": self.simulations}),
            **self._means_by_side(reported),
        }
        reported = {name: value for name, value in reported.items() if name not in MEANS_ONLY}
        if taken := sorted(item.keys() & reported.keys()):
            raise ParameterError(f'its defense reports "{taken[0]}", which the round reports itself: rename it')
        item |= reported
        self.history.append(item)
        return item

    def _means_by_side(self, reported: dict[str, Any]) -> dict[str, float]:
        """Return the means of what the defense reports by participants, over honest ones and over attackers."""
        hostile = {str(who) for who in self.attackers}
        sides: dict[str, list[float]] = {}
        for key, name in REPORTED_BY_PARTICIPANTS.items():
            by_participant = reported.get(key)
            for who, value in by_participant.items() if isinstance(by_participant, dict) else ():
                side = "attacker" if who in hostile else "honest"
                sides.setdefault(f"{side}_{name}", []).append(value)
        return {name: fmean(values) for name, values in sides.items()}

    @timed
    def select(self) -> Indices:
        """Return the participants of this round."""
        return self.defense.select(self.round)

    @timed
    def train(self, selected: Indices) -> Matrix:
        """Return the updates of the selected participants; attackers train on poisoned data."""
        return self.participants.train(self.weights, selected, self.round)

    @timed
    def poison(self, selected: Indices, updates: Matrix) -> None:
        """Replace the attackers' rows by poisoned ones."""
        simulation = poison_rows(
            self.attack,
            updates,
            selected=selected,
            attackers=self.attackers,
            round=self.round,
            weights=self.weights,
            columns=self.model.columns,
            task=self.task,
            seed=self.seed,
            simulate=functools.partial(self._simulate, selected),
            loss=self.participants.loss,
        )
        if "defense" in self.attack.needed_knowledge:
            self.simulations = simulation.calls
            self.seconds["simulate"] = self.seconds.get("simulate", 0.0) + simulation.seconds

    def _simulate(
        self, selected: Indices, updates: Matrix, *, gram: Gram = kernels.gram, all_finite: bool = False
    ) -> Vector | None:
        """Return the aggregate if the selected participants sent these rows, or None where the model would be kept."""
        twin = self.defense.simulation_copy(simulation_seed(self.seed, self.round))
        rows = updates.copy() if twin.overwrites_rows else updates
        transcript = self._transmit_with(twin, selected, rows, all_finite=all_finite)
        change = self._model_change(twin, transcript, gram)
        return None if isinstance(change, str) else change

    @timed
    def transmit(self, selected: Indices, updates: Matrix, watch: Collection[int] = ()) -> Transcript:
        """Transmit rows to the server, overwriting them; rows that are not finite are dropped."""
        return self._transmit_with(self.defense, selected, updates, watch)

    def _transmit_with(
        self,
        defense: Chain,
        selected: Indices,
        updates: Matrix,
        watch: Collection[int] = (),
        *,
        all_finite: bool = False,
    ) -> Transcript:
        hostile = np.intersect1d(selected, self.attackers)
        transcript = defense.transmit(
            self.round,
            read_only(self.weights),
            selected,
            updates,
            attackers=self.attackers,
            deviation=self.deviation,
            clean=self.participants.clean_updates(self.weights, hostile, self.round),
            watch=watch,
            all_finite=all_finite,
        )
        if defense.rule.needs_root_update:
            root = self.participants.root_update(self.weights, self.round)
            transcript.server = replace(transcript.server, root_update=read_only(root))
        return transcript

    @timed
    def aggregate(self, transcript: Transcript) -> str:
        """Update the global model; return why it was kept instead, or an empty text."""
        change = self._model_change(self.defense, transcript)
        if isinstance(change, str):
            return change
        weights = (self.weights + change).astype(np.float32, copy=False)
        self.model.columns.clamp_variances(weights)
        self.weights = weights
        return ""

    def _model_change(self, defense: Chain, transcript: Transcript, gram: Gram = kernels.gram) -> Vector | str:
        """Return the change of the model by a defense, or the reason why the model is kept."""
        try:
            change: Vector = np.asarray(defense.aggregate(transcript, gram))
        except NoAnswerError as reason:
            return str(reason)
        except NotFiniteError:
            # Of a pre-aggregation, since rows that are not finite were dropped before it.
            return NOT_FINITE
        if change.shape != self.weights.shape:
            raise ParameterError(f"the defense's aggregate has shape {change.shape}, not {self.weights.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            # Negated, so that NaN is refused as well.
            if not np.abs(self.weights + change).max(initial=0) < LARGEST_WEIGHT:
                return NOT_FINITE
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
            report(self.run_round())

    def final_metrics(self) -> dict[str, Any]:
        """Return the metrics of the mean of the last global models, as many as the task averages."""
        if self.task.average_last == 1:
            return self.history[-1]
        with one_thread():
            return self.evaluation(_mean_model(self.recent))

    def state(self) -> State:
        """Return the state that later rounds depend on, for a checkpoint."""
        recent = np.stack(self.recent or [self.weights])
        arrays = {"weights": self.weights, "recent": recent, "momentum": self.participants.momentum.copy()}
        for owner, memory in self._checked_memories().items():
            arrays |= {f"{owner}/{name}": array.copy() for name, array in memory.items()}
        facts = {"round": self.round, "recent": len(self.recent), "history": self.history, "seconds": self.seconds}
        return State(arrays, copy.deepcopy(facts))

    def restore(self, state: State) -> None:
        """Restore a state, so that later rounds give the same bits as without a stop."""
        arrays, facts = state
        weights, recent, momentum = arrays["weights"], arrays["recent"], arrays["momentum"]
        if weights.dtype != np.float32 or {weights.shape, recent.shape[1:]} != {self.weights.shape}:
            raise ValueError("the state of another model")
        memories: dict[str, dict[str, npt.NDArray[Any]]] = {owner: {} for owner in self._checked_memories()}
        for key, array in arrays.items():
            owner, _, name = key.partition("/")
            if owner in memories:
                memories[owner][name] = array.copy()
        copied = copy.deepcopy(facts)
        # One assignment: a missing key raises before anything is set.
        self.round, self.history, self.seconds, self.recent, self.weights, self.participants.momentum = (
            *(copied["round"], copied["history"], copied["seconds"]),
            *(list(recent)[: copied["recent"]], weights.copy(), momentum.copy()),
        )
        self.attack.memories = {owner: memories.pop(owner) for owner in self.attack.memories}
        self.defense.memory = memories

    def _checked_memories(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """Return the memories of attack and defense, or raise an error where they hold anything but arrays."""
        memories = {**self.attack.memories, **self.defense.memory}
        for owner, memory in memories.items():
            for name, value in memory.items():
                if not isinstance(name, str):
                    raise ParameterError(f"the {owner}'s memory[{name!r}] must have a text as its name")
                if not isinstance(value, np.ndarray) or value.dtype.kind not in PLAIN:
                    raise ParameterError(f'the {owner}\'s memory["{name}"] must be an array of numbers')
        return memories


def new_model(task: Task, seed: int) -> torch.nn.Module:
    """Return the initial global model, decided by the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(stream(seed, "model").integers(2**63)))
        return task.model()


def _goals(task: Task, attack: Attack, others: Sequence[Attack], test: Examples) -> list[Goal | None]:
    """Return the goals that models are scored for: the attack's own, or those of other attacks, None without one."""
    inputs = Examples(read_only(test.x), read_only(test.y))
    return [checked_goal(one.goal(inputs, task), test, task) for one in ([attack] if attack.targeted else others)]


def _mean_model(models: list[Vector]) -> Vector:
    total = np.zeros(models[0].shape)
    for model in models:
        total += model
    return (total / len(models)).astype(np.float32)
