"""What all measures of a curious server have: a way of looking, and what is to be told of it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fflbench.errors import ParameterError
from fflbench.federation import Defense
from fflbench.measures import Measure, built
from fflbench.privacy.attack import CuriousServer
from fflbench.privacy.targets import TARGETS, Target, linear_layers
from fflbench.registry import Kind
from fflbench.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Looking(Measure):
    """A server looks at a round in one way and lets an attack loose on what it sees."""

    attacked = Kind.PRIVACY_ATTACK

    target: Annotated[
        Literal["own", "pair-sum", "found-pair-sum", "unmixed", "colluding", "aggregate"],
        "how the server turns what it sees into updates to attack",
    ] = "own"

    @property
    def way(self) -> Target:
        """The way of looking."""
        return TARGETS[self.target]

    def applies(self, defense: Defense) -> bool:
        return self.way.applies(defense)

    def check(self, task: Task, defense: Defense) -> None:
        if self.way.finds_pairs and not linear_layers(built(task)):
            raise ParameterError(f"target = {self.target} needs a model with a linear layer")

    def told(self, defense: Defense, attack: CuriousServer) -> dict[str, Any]:
        """Who must know what, and whether an exchange was reckoned with, if there was one."""
        return {
            "adaptive": (self.way.adaptive or attack.rehearses) if defense.exchanges else None,
            "target": self.way.meaning,
            "knows": list(dict.fromkeys([*self.way.knows, *attack.knows])),
            "caution": self.way.caution,
        }


def even(people: int, defense: Defense) -> None:
    """Refuse a number of people of whom one finds no partner."""
    if defense.exchanges and people % 2:
        raise ParameterError(f"people = {people} leaves one without a partner; take an even number")
