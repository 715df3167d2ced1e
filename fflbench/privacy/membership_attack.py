"""Base class of membership-inference attacks, and the knowledge of the server that runs them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fflbench.privacy.reconstruction_attack import CuriousServer
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from torch import Tensor

    from fflbench.privacy.per_example_signals import PerExampleSignals
    from fflbench.privacy.shadow_rounds import ExamplesByRound, ShadowObservation, ShadowRounds

AUXILIARY = "auxiliary data"
"""Knowledge of data like the victims', which an observer has only if the attack declares it."""
CONTROLLED = "controlled participants"
"""Knowledge of colluding participants' data, which an observer has only if the attack declares it."""


@dataclass(frozen=True)
class MembershipObserver:
    """Knowledge and abilities of a curious server; indices of examples do not reveal who holds them."""

    task: Task
    """The task, since how participants train is public."""
    weights: Vector
    """Weights of the global model that all participants started from."""
    signals: "PerExampleSignals"
    """Outputs, losses, gradients and activations of examples at any weights."""
    rng: np.random.Generator
    """Random numbers of the attack."""
    size: int
    """Approximate number of examples per participant."""
    participants: int
    """Number of participants in a round."""
    unique: npt.NDArray[np.bool_]
    """Whether each example differs from all others that somebody trained on, as all candidates do."""
    declared: dict[str, Any] = field(default_factory=dict)
    """Knowledge that the attack declares, by its name."""
    shadow_rounds: "ShadowRounds | None" = None
    """Rounds to simulate, for attacks that declare data to train on."""

    def weights_after(self, update: Vector) -> Vector:
        """Return the weights of the global model after an update."""
        weights = self.weights + update
        # Noise may make a running variance negative, and the model's output would then be NaN.
        self.signals.columns.clamp_variances(weights)
        return weights

    @property
    def auxiliary_examples(self) -> Indices:
        """Examples from the victims' distribution that nobody trained on."""
        examples: Indices = self._declared_knowledge(AUXILIARY)
        return examples

    @property
    def controlled_examples(self) -> list[Indices]:
        """Examples of colluding participants, who are not selected in this round."""
        examples: list[Indices] = self._declared_knowledge(CONTROLLED)
        return examples

    def simulate_rounds(
        self, examples: "ExamplesByRound", purpose: str, *, without_defense: bool = False
    ) -> "Iterator[ShadowObservation]":
        """Simulate rounds of participants with given examples under the same defense, and yield what is observed.

        With `without_defense`, updates are observed one by one, as if there were no defense.
        """
        if self.shadow_rounds is None:
            raise PermissionError(
                f'simulated rounds need "{AUXILIARY}" or "{CONTROLLED}", which this attack does not declare'
            )
        return self.shadow_rounds.run(examples, purpose, without_defense=without_defense)

    def _declared_knowledge(self, what: str) -> Any:
        if what not in self.declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self.declared[what]


@dataclass(kw_only=True)
class MembershipAttack(CuriousServer):
    """Attack by a curious server that scores examples, given an update."""

    def gradient_conversion_text(self, task: Task) -> str:
        """Return a description of how updates are converted to gradients, if the attack does that."""
        return ""

    def gradient_count(self, scored: int, participants: int) -> int:
        """Return about how many gradients of single examples it takes, for estimates of its time.

        `scored` examples are scored in all, and `participants` take part in a round.
        """
        return 0

    def prepare(self, observer: MembershipObserver, candidates: Indices) -> None:
        """Prepare to score these examples, before any update is observed."""

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        """Return one score per example: the higher, the likelier it is a member."""
        raise NotImplementedError
