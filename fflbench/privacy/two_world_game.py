"""The two-world game on rounds of a task: a participant sends one of two updates, and the server guesses which.

Ngo et al. (Secure aggregation is not private against membership inference attacks, ECML PKDD 2024) play it on sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fflbench.crypto.entropy import Entropy
from fflbench.engines.engine import LocalData, create_engine
from fflbench.errors import ParameterError
from fflbench.federation import Setting
from fflbench.federation.attack import Attack
from fflbench.federation.chain import Chain, create
from fflbench.federation.rounds import Federation
from fflbench.privacy.distinguishing import TESTS, CandidatePair, OtherUpdates
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Matrix, Vector

Alternative = Literal["other-examples", "other-order", "other-participant", "same"]
"""Origin of the second candidate."""


@dataclass(frozen=True)
class Trial:
    """One guess of the server."""

    participant: int
    first: bool
    """Whether the participant sent the first candidate, its own update."""
    guessed_first: bool
    """Whether the server guessed so."""


@dataclass(frozen=True)
class TwoWorldGame:
    """Updates of a round of which trials are made: each draws a round's participants, and the transport anew."""

    weights: Vector
    """The global model that all start from."""
    setting: Setting
    """All who trained, of whom each trial selects as many as a round has."""
    updates: Matrix
    """One row per participant: its own update, the first candidate."""
    alternatives: Matrix | None
    """One row per participant: its second candidate; None for the update of a participant who is not selected."""
    alike: OtherUpdates | None
    """Updates that the server trained itself; None if it knows the others' own."""

    def run(self, defense: Chain, trials: int, seed: int) -> Iterator[Trial]:
        """Yield trials, in half of which each world is real; every participant is tested in turn."""
        defense.begin(self.setting, 0)
        # A copy without secrets, since the server knows the protocol.
        protocol = defense.transport.simulation_copy(Entropy(0))
        worlds = stream(seed, "two-world", "worlds").permutation(np.arange(trials) % 2 == 0)
        for number, first in enumerate(worlds.tolist()):
            victim = number % self.setting.participants
            rng = stream(seed, "two-world", "trial", number)
            others = rng.permutation(np.delete(np.arange(self.setting.participants), victim))
            selected = np.sort(np.append(others[: self.setting.per_round - 1], victim))
            outsiders = others[self.setting.per_round - 1 :]
            candidates = self.updates[victim], self._alternative(victim, outsiders)
            rows = self.updates[selected]
            rows[np.searchsorted(selected, victim)] = candidates[0 if first else 1]
            defense.begin(self.setting, int(rng.integers(2**63)))
            view = defense.transmit(0, self.weights, selected, rows).server
            expected = protocol.expected_rows(np.array([victim, victim]), np.stack(candidates), self.weights)
            pair = CandidatePair(victim, int(self.setting.sizes[victim]), expected[0], expected[1])
            score = TESTS[defense.transport.rows](view, pair, self._others(selected[selected != victim]))
            # Also where no score is possible, since a row was lost or is not finite.
            undecided = not abs(score) > 0
            yield Trial(victim, first, bool(rng.integers(2)) if undecided else score > 0)

    @property
    def equal_candidates(self) -> int:
        """Number of participants whose two candidates are the same."""
        return 0 if self.alternatives is None else int((self.updates == self.alternatives).all(1).sum())

    def _alternative(self, victim: int, outsiders: Indices) -> Vector:
        alternative: Vector = self.updates[outsiders[0]] if self.alternatives is None else self.alternatives[victim]
        return alternative

    def _others(self, who: Indices) -> OtherUpdates:
        return self.alike or OtherUpdates(total=self.setting.sizes[who].astype(np.float64) @ self.updates[who])


def prepare_two_world_game(
    task: Task,
    seed: int,
    device: str,
    *,
    trained: int,
    rounds_before: int,
    alternative: Alternative,
    alike: int,
) -> TwoWorldGame:
    """Train a round's participants, their alternatives, and `alike` updates of the server's own.

    The global model comes from rounds of federated averaging without any defense, so that nothing but the transport
    differs between defenses. The server trains on random parts of the test set. Worker momentum is left out.
    """
    federation = Federation(task, Attack(share=0.0), create({}), seed, device=device)
    for _ in range(rounds_before):
        federation.run_round()
    model, weights = federation.model, federation.weights
    data, held, rng = task.data(), federation.participants.indices[:trained], stream(seed, "two-world", "alternatives")
    train = torch.from_numpy(data.train.x).to(device), torch.from_numpy(data.train.y).to(device)
    test = torch.from_numpy(data.test.x).to(device), torch.from_numpy(data.test.y).to(device)

    def updates(x: torch.Tensor, y: torch.Tensor, indices: list[Indices], own_seed: int) -> Matrix:
        engine = create_engine(model, LocalData(x, y, indices, own_seed, task))
        rows = engine.train(weights, np.arange(len(indices)), rounds_before)
        model.load(weights)
        return rows

    first = updates(*train, held, seed)
    other_seed = int(rng.integers(2**63))
    second: Matrix | None = None
    if alternative == "same":
        second = first
    elif alternative == "other-order":
        second = updates(*train, held, other_seed)
    elif alternative == "other-examples":
        second = updates(*train, [_other_examples(own, len(data.train), rng) for own in held], other_seed)
    sizes = np.array([len(own) for own in held])
    own = min(round(float(sizes.mean())), len(data.test))
    drawn = [rng.permutation(len(data.test))[:own] for _ in range(alike)]
    shadows = OtherUpdates(alike=updates(*test, drawn, other_seed)) if alike else None
    setting = Setting(trained, task.per_round, sizes, model.columns)
    return TwoWorldGame(weights, setting, first, second, shadows)


def _other_examples(own: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Return as many other examples as a participant holds, or all others if there are fewer."""
    others = rng.permutation(np.setdiff1d(np.arange(count), own))[: len(own)]
    if not len(others):
        raise ParameterError('a participant holds all examples: take alternative = "other-order"')
    return others
