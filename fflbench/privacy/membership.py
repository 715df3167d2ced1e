"""Base class of membership-inference attacks, and what a curious server knows and can do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fflbench.privacy.attack import CuriousServer
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from torch import Tensor

    from fflbench.privacy.examination import Examination
    from fflbench.privacy.shadow_rounds import Groups, ShadowObservation, ShadowRounds

AUXILIARY, CONTROLLED = "auxiliary data", "controlled participants"


@dataclass(frozen=True)
class Server:
    """Knowledge and abilities of a curious server; examples are given as indices that do not reveal their origin."""

    task: Task
    """The task, since how participants train is public."""
    before: Vector
    """The global model that all participants started from."""
    examine: "Examination"
    rng: np.random.Generator
    size: int
    """Approximate number of examples per participant."""
    people: int
    """Number of participants in a round."""
    alone: npt.NDArray[np.bool_]
    """Whether each example equals no other one that anybody trained on, as is true of all suspects."""
    declared: dict[str, Any] = field(default_factory=dict)

    def after(self, update: Vector) -> Vector:
        """Return the global model after an update."""
        weights = self.before + update
        # Noise may make a running variance negative, and then the model's output is not a number.
        self.examine.columns.clamp_variances(weights)
        return weights

    @property
    def auxiliary(self) -> Indices:
        """Examples from the victims' distribution that nobody trained on."""
        examples: Indices = self._declared_knowledge(AUXILIARY)
        return examples

    @property
    def controlled(self) -> list[Indices]:
        """Examples of colluding participants, who are not selected in this round."""
        examples: list[Indices] = self._declared_knowledge(CONTROLLED)
        return examples

    def rehearse(self, groups: "Groups", purpose: str, *, plain: bool = False) -> "Iterator[ShadowObservation]":
        """Simulate rounds of given participants from the same model behind the same defense, and observe them alike.

        With `plain`, updates are observed one by one, as if there were no defense.
        """
        stage: ShadowRounds = self._declared_knowledge("stage")
        return stage.play(groups, purpose, plain=plain)

    def _declared_knowledge(self, what: str) -> Any:
        if what not in self.declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self.declared[what]


@dataclass(kw_only=True)
class MembershipAttack(CuriousServer):
    """Attack by a curious server that scores examples by an update."""

    def conversion(self, task: Task) -> str:
        """Return how it converts an update into a gradient, where it needs one."""
        return ""

    def prepare(self, server: Server, suspects: Indices) -> None:
        """Prepare to score these examples, before any update is seen."""

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        """Return one score per example: the higher, the likelier it is a member."""
        raise NotImplementedError
