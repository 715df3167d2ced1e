"""Simulated rounds of privacy measures: participants train on given examples, and an observation is made."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fflbench.engines.engine import LocalData, create_engine
from fflbench.engines.flat_model import FlatModel
from fflbench.federation import ObservedUpdates, Setting
from fflbench.federation.chain import Chain
from fflbench.privacy.observation import Observation, linear_layers, observe, watched
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

Groups = Sequence[Sequence[Indices]]
"""Indices of each participant's examples, by round."""


@dataclass(frozen=True)
class ShadowObservation:
    """Updates observed in a round, with the round's number."""

    group: int
    observed: ObservedUpdates


@dataclass(frozen=True)
class ShadowRounds:
    """A model, examples and a defense, with which rounds can be simulated."""

    task: Task
    model: FlatModel
    weights: Vector
    """The global model that all participants start from."""
    x: Tensor
    y: Tensor
    defense: Chain
    observation: Observation
    seed: int

    def play(self, groups: Groups, purpose: str, *, plain: bool = False) -> Iterator[ShadowObservation]:
        """Yield the observations of rounds with these participants; `plain` leaves the defense out."""
        seed = int(stream(self.seed, "stage", purpose).integers(2**63))
        for number, group in enumerate(groups):
            training = create_engine(self.model, LocalData(self.x, self.y, group, seed, self.task))
            rows = training.train(self.weights, np.arange(len(group)), number)
            self.model.load(self.weights)
            if plain:
                observations = [ObservedUpdates((row,), (who,)) for who, row in enumerate(rows)]
            else:
                observations = self._transmitted(rows, np.array([len(held) for held in group]), number, seed)
            yield from (ShadowObservation(number, observed) for observed in observations)

    def _transmitted(self, rows: Matrix, sizes: Indices, number: int, seed: int) -> list[ObservedUpdates]:
        chain, people = copy.deepcopy(self.defense), list(range(len(rows)))
        chain.begin(Setting(len(rows), len(rows), sizes, self.model.columns), seed)
        watch = watched(self.observation, people)
        transcript = chain.transmit(number, self.weights, np.arange(len(rows)), rows, watch=watch)
        return observe(self.observation, chain.transport, transcript, people, linear_layers(self.model.model))
