"""Participants of a federation: their data, which attackers poison, and their local training."""

from collections.abc import Callable

import numpy as np
import torch

from fflbench.data import Examples
from fflbench.engines.engine import LocalData, create_engine
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.loop import Loop
from fflbench.errors import ParameterError
from fflbench.federation.attack import Attack, LocalTraining, check_declared, check_poisoned
from fflbench.federation.evaluation import mean_loss
from fflbench.federation.views import read_only
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector


class Participants:
    """All participants of a federation, attackers among them, and the server with examples of its own."""

    def __init__(self, task: Task, attack: Attack, examples: Examples, model: FlatModel, seed: int) -> None:
        self.task, self.attack, self.examples, self.model, self.seed = task, attack, examples, model, seed
        self.indices = task.divide(examples.y, seed)
        self.attackers = _attackers(task, attack, seed)
        device = model.flat.device
        self._clean = torch.from_numpy(examples.x).to(device), torch.from_numpy(examples.y).to(device)
        # The server's own examples stand last, as those of one more participant.
        self._all = [*self.indices, task.root_indices(examples.y, seed)]
        self.data = LocalData(*self._clean, self._all, seed, task)
        self.engine = create_engine(model, self.data)
        self.momentum: Matrix = np.empty((0, 0), np.float32)
        # Updates that a round trains at most once, with their rounds.
        self._root: tuple[int, Vector] = (-1, np.empty(0, np.float32))
        self._unpoisoned: tuple[int, Matrix] = (-1, self.momentum)
        # Examples of those whose loss was asked for last, since attackers ask many times.
        self._evaluated = np.empty(0, np.int64), *self._clean

    @property
    def sizes(self) -> Indices:
        """Numbers of examples, by participant."""
        return np.array([len(own) for own in self.indices])

    def declared_sizes(self) -> Indices:
        """Return the numbers of examples that participants declare: attackers may declare others than they hold."""
        sizes = self.sizes
        held = sizes[self.attackers]
        declared = self.attack.declared_examples(held.copy())
        check_declared(declared, held)
        sizes[self.attackers] = declared
        return sizes

    def train(self, weights: Vector, selected: Indices, round: int) -> Matrix:
        """Return the updates of the selected participants; attackers train on poisoned data, or in their own way."""
        hostile = np.isin(selected, self.attackers)
        self._poison_data(selected[hostile], round)
        by_attack = hostile & self.attack.overrides("train")
        if not by_attack.any():
            return self._with_momentum(selected, self.engine.train(weights, selected, round))
        updates = np.empty((len(selected), len(weights)), np.float32)
        if not by_attack.all():
            updates[~by_attack] = self.engine.train(weights, selected[~by_attack], round)
        for place in np.flatnonzero(by_attack):
            updates[place] = self._train_attacker(weights, int(selected[place]), round)
        return self._with_momentum(selected, updates)

    def root_update(self, weights: Vector, round: int) -> Vector:
        """Return the update of the server's own examples, which is trained once per round."""
        if not self.task.root_examples:
            raise ParameterError("the server has no examples to train on: set the task's root_examples, to 100 say")
        if self._root[0] != round:
            self._root = round, self.engine.train(weights, np.array([self.task.participants]), round)[0]
        return self._root[1]

    def clean_updates(self, weights: Vector, attackers: Indices, round: int) -> Callable[[Indices], Matrix]:
        """Return a function from attackers to their updates on unpoisoned data, which are trained once per round."""

        def updates(who: Indices) -> Matrix:
            if self._unpoisoned[0] != round:
                engine = create_engine(self.model, LocalData(*self._clean, self._all, self.seed, self.task))
                self._unpoisoned = round, engine.train(weights, attackers, round)
            return self._unpoisoned[1][np.searchsorted(attackers, who)]

        return updates

    def loss(self, weights: Vector, who: Indices) -> float:
        """Return the mean loss of a model with these weights on the unpoisoned examples of some participants."""
        if not np.array_equal(self._evaluated[0], who):
            own = torch.from_numpy(np.concatenate([self.indices[each] for each in who])).to(self.model.flat.device)
            self._evaluated = who, self._clean[0][own], self._clean[1][own]
        return mean_loss(self.task, self.model, weights, *self._evaluated[1:])

    def _poison_data(self, attackers: Indices, round: int) -> None:
        """Replace the examples of attackers by those that they train on in this round."""
        if not self.attack.overrides("poison_data"):
            return
        pool = self.data
        for attacker in map(int, attackers):
            own = self.indices[attacker]
            before = Examples(read_only(self.examples.x[own]), read_only(self.examples.y[own]))
            rng = stream(self.seed, "data", attacker, round)
            after = self.attack.poison_data(before, self.task, round, rng)
            check_poisoned(after, before, self.task)
            # The pool shares its memory with the data set until attackers change it.
            if pool.y is self._clean[1]:
                pool.y = pool.y.clone()
            if after.x is not before.x and pool.x is self._clean[0]:
                pool.x = pool.x.clone()
            # Copies, since torch warns of read-only arrays, which an attack may return as they are.
            if pool.x is not self._clean[0]:
                pool.x[own] = torch.from_numpy(np.array(after.x)).to(pool.x)
            pool.y[own] = torch.from_numpy(np.array(after.y)).to(pool.y)

    def _train_attacker(self, weights: Vector, attacker: int, round: int) -> Vector:
        """Return the update of an attacker who trains in its own way."""
        local = LocalTraining(
            Loop(self.model, self.data),
            round=round,
            participant=attacker,
            weights=weights,
            task=self.task,
            rng=stream(self.seed, "attack", "train", round, attacker),
        )
        # Code of the attack's own may draw from torch's generator, as dropout does.
        with torch.random.fork_rng(devices=[self.model.flat.device] if self.model.flat.is_cuda else []):
            torch.manual_seed(self.data.torch_seed(attacker, round))
            update = self.attack.train(local)
        if getattr(update, "shape", None) != weights.shape:
            raise ParameterError(f"train must return a vector of {len(weights)} numbers")
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
            # Nothing sent yet, or training that diverged once: momentum starts again.
            first = ~np.isfinite(before).all(1, keepdims=True)
            now[:] = np.where(first, now, beta * before + (1 - beta) * now)
            self.momentum[selected] = now
        return updates


def _attackers(task: Task, attack: Attack, seed: int) -> Indices:
    """Return the first participants of one random order, so that a larger share only adds attackers."""
    order = stream(seed, "attackers").permutation(task.participants)
    return np.sort(order[: attack.count(task.participants)])
