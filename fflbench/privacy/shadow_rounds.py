"""Shadow rounds: simulated participants train on given examples, and their round is observed."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fflbench.engines.engine import LocalData, create_engine
from fflbench.engines.flat_model import FlatModel
from fflbench.federation import ObservedUpdates, Setting
from fflbench.federation.chain import Chain
from fflbench.privacy.observation import Observation, linear_weight_names, observe, participants_to_watch
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

ExamplesByRound = Sequence[Sequence[Indices]]
"""Indices of each participant's examples, by round and participant."""


@dataclass(frozen=True)
class ShadowObservation:
    """Updates observed in a round, with the round's number."""

    round: int
    observed: ObservedUpdates


@dataclass(frozen=True)
class ShadowRounds:
    """Model, examples, defense and observation with which rounds are simulated."""

    task: Task
    model: FlatModel
    weights: Vector
    """The global model that all participants start from."""
    x: Tensor
    y: Tensor
    defense: Chain
    observation: Observation
    seed: int

    def run(
        self, examples: ExamplesByRound, purpose: str, *, without_defense: bool = False
    ) -> Iterator[ShadowObservation]:
        """Yield the observations of rounds with these participants; `without_defense` leaves out the defense."""
        seed = int(stream(self.seed, "stage", purpose).integers(2**63))
        for number, held in enumerate(examples):
            training = create_engine(self.model, LocalData(self.x, self.y, held, seed, self.task))
            rows = training.train(self.weights, np.arange(len(held)), number)
            self.model.load(self.weights)
            if without_defense:
                observations = [ObservedUpdates((row,), (who,)) for who, row in enumerate(rows)]
            else:
                observations = self._transmit_and_observe(rows, np.array([len(own) for own in held]), number, seed)
            yield from (ShadowObservation(number, observed) for observed in observations)

    def _transmit_and_observe(self, rows: Matrix, sizes: Indices, number: int, seed: int) -> list[ObservedUpdates]:
        chain, participants = copy.deepcopy(self.defense), list(range(len(rows)))
        chain.begin(Setting(len(rows), len(rows), sizes, self.model.columns), seed)
        watch = participants_to_watch(self.observation, participants)
        transcript = chain.transmit(number, self.weights, np.arange(len(rows)), rows, watch=watch)
        return observe(
            self.observation, chain.transport, transcript, participants, linear_weight_names(self.model.model)
        )
