"""Rounds of privacy measures: people train on given examples, a transport carries their updates, somebody observes."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fflbench.federation import ObservedUpdates, Setting
from fflbench.federation.chain import Chain
from fflbench.federation.training import FlatModel, Holdings, engine
from fflbench.privacy.observation import Observation, linear_layers, observe, watched
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

Groups = Sequence[Sequence[Indices]]
"""For each round, and each who takes part in it, which examples that one holds."""


@dataclass(frozen=True)
class Sight:
    """Something observed of a round, with the number of the round."""

    group: int
    look: ObservedUpdates


@dataclass(frozen=True)
class Stage:
    """A model, examples and a defense, with which anybody who has them can play rounds."""

    task: Task
    model: FlatModel
    weights: Vector
    """The global model that everybody starts from."""
    x: Tensor
    y: Tensor
    defense: Chain
    observation: Observation
    seed: int

    def play(self, groups: Groups, purpose: str, *, plain: bool = False) -> Iterator[Sight]:
        """Yield what is observed of rounds in which these people take part; plain: without the defense, one by one."""
        seed = int(stream(self.seed, "stage", purpose).integers(2**63))
        for number, group in enumerate(groups):
            training = engine(self.model, Holdings(self.x, self.y, group, seed, self.task))
            rows = training.train(self.weights, np.arange(len(group)), number)
            self.model.load(self.weights)
            if plain:
                found = [ObservedUpdates((row,), (who,)) for who, row in enumerate(rows)]
            else:
                found = self._transmitted(rows, np.array([len(held) for held in group]), number, seed)
            yield from (Sight(number, look) for look in found)

    def _transmitted(self, rows: Matrix, sizes: Indices, number: int, seed: int) -> list[ObservedUpdates]:
        chain, people = copy.deepcopy(self.defense), list(range(len(rows)))
        chain.begin(Setting(len(rows), len(rows), sizes, self.model.columns), seed)
        watch = watched(self.observation, people)
        transcript = chain.transmit(number, self.weights, np.arange(len(rows)), rows, watch=watch)
        return observe(self.observation, chain.transport, transcript, people, linear_layers(self.model.model))
