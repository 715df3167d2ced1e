"""What all measures of a curious server have: a way of looking, and what is to be told of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fflbench.errors import ParameterError
from fflbench.federation import Defense
from fflbench.federation.columns import built, columns_of
from fflbench.measures.measure import Measure
from fflbench.privacy.attack import CuriousServer
from fflbench.privacy.targets import TARGETS, Target, linear_layers
from fflbench.records.record import Record
from fflbench.records.validation import Content, Text
from fflbench.registry import Kind
from fflbench.tasks import Task


class ObservedFacts(Content):
    """Facts about the attacked observation."""

    adaptive: bool | None
    target: Text
    knows: list[Text]
    caution: Text = ""


@dataclass(frozen=True, kw_only=True)
class Looking(Measure):
    """Run a privacy attack on one of the observations that a server can make of a round."""

    attacked = Kind.PRIVACY_ATTACK
    section = "Privacy"
    observed = "target"
    facts: ClassVar[type[Content]] = ObservedFacts

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

    def check(self, task: Task, defense: Defense, attack: Any = None) -> None:
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

    @classmethod
    def row_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return a warning where no attack took an exchange into account."""
        adaptive = [record.facts["adaptive"] for record in records if record.status == "done"]
        exchanges = any(each is not None for each in adaptive)
        return ("no adaptive attack has been run against its exchange",) if exchanges and not any(adaptive) else ()


def even(people: int, defense: Defense) -> None:
    """Refuse a number of people of whom one finds no partner."""
    if defense.exchanges and people % 2:
        raise ParameterError(f"people = {people} leaves one without a partner; take an even number")


def training_seconds(task: Task, examples: float) -> float:
    """About how long local training on so many examples takes, as measured on one core with small models."""
    return 1e-8 * examples * task.local_epochs * columns_of(task).count
