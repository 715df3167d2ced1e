"""Rounds played for a look: people train on given examples, a defense transmits, and the server looks its way."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fflbench.federation import Defense, Sent
from fflbench.federation.defense import Setting
from fflbench.federation.training import FlatModel, Holdings, engine
from fflbench.privacy.targets import Look, linear_layers, looks
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

Groups = Sequence[Sequence[Indices]]
"""For each round, and each who takes part in it, which examples that one holds."""


@dataclass(frozen=True)
class Sight:
    """Something a server sees of a round, with the number of the round."""

    group: int
    look: Look


@dataclass(frozen=True)
class Stage:
    """A model, examples and a defense, with which anybody who has them can play rounds."""

    task: Task
    model: FlatModel
    weights: Vector
    """The global model that everybody starts from."""
    x: Tensor
    y: Tensor
    defense: Defense
    target: str
    seed: int

    def play(self, groups: Groups, purpose: str, *, plain: bool = False) -> Iterator[Sight]:
        """What the server sees of rounds in which these people take part; plain: without the defense, one by one."""
        seed = int(stream(self.seed, "stage", purpose).integers(2**63))
        for number, group in enumerate(groups):
            training = engine(self.model, Holdings(self.x, self.y, group, seed, self.task))
            rows = training.train(self.weights, np.arange(len(group)), number)
            self.model.load(self.weights)
            if plain:
                found = [Look((row,), (who,)) for who, row in enumerate(rows)]
            else:
                found = self._transmitted(rows, np.array([len(held) for held in group]), number, seed)
            yield from (Sight(number, look) for look in found)

    def _transmitted(self, rows: Matrix, sizes: Indices, number: int, seed: int) -> list[Look]:
        defense, everybody = copy.deepcopy(self.defense), np.arange(len(rows))
        defense.begin(Setting(len(rows), len(rows), sizes, self.model.columns, seed))
        sent = rows.copy()
        view = defense.transmit(number, self.weights, everybody, Sent(sent, sent)).without_non_finite()
        return looks(self.target, defense, view, everybody, rows, linear_layers(self.model.model))
