"""Whether a curious server can tell which examples somebody trained on, from what a defense lets it see."""

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
    from fflbench.privacy.stage import Groups, Sight, Stage

AUXILIARY, CONTROLLED = "auxiliary data", "controlled participants"


@dataclass(frozen=True)
class Server:
    """What a curious server has and can do. Examples are told by numbers that say nothing of where they come from."""

    task: Task
    """How people train is public."""
    before: Vector
    """The global model that everybody started from."""
    examine: "Examination"
    rng: np.random.Generator
    size: int
    """How many examples a participant holds, about."""
    people: int
    """How many take part in a round."""
    alone: npt.NDArray[np.bool_]
    """Which examples equal no other one that anybody trained on, as is true of all suspects."""
    declared: dict[str, Any] = field(default_factory=dict)

    def after(self, update: Vector) -> Vector:
        """The model that an update makes of the global one."""
        weights = self.before + update
        # Noise may make a running variance negative, and then a model says nothing.
        self.examine.columns.clamp_variances(weights)
        return weights

    @property
    def auxiliary(self) -> Indices:
        """Examples like the victims', which nobody trained on."""
        examples: Indices = self._tell(AUXILIARY)
        return examples

    @property
    def controlled(self) -> list[Indices]:
        """The examples of participants who do the server's bidding and sit out this round."""
        examples: list[Indices] = self._tell(CONTROLLED)
        return examples

    def rehearse(self, groups: "Groups", purpose: str, *, plain: bool = False) -> "Iterator[Sight]":
        """Play rounds with people of one's own, from the same model behind the same defense, and look the same way.

        Plain: look at their updates one by one, as if there were no defense.
        """
        stage: Stage = self._tell("stage")
        return stage.play(groups, purpose, plain=plain)

    def _tell(self, what: str) -> Any:
        if what not in self.declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self.declared[what]


@dataclass(kw_only=True)
class MembershipAttack(CuriousServer):
    """A curious server that judges examples by an update."""

    def conversion(self, task: Task) -> str:
        """How it takes a change of the model for a gradient, where it needs one."""
        return ""

    def prepare(self, server: Server, suspects: Indices) -> None:
        """Get ready to judge these examples, before any update is seen."""

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        """A score for each example: the higher, the likelier it was trained on."""
        raise NotImplementedError
