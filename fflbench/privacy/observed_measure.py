"""Base class of measures that attack an observation of a round, and the facts that they report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MaxLen

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation.chain import Chain
from fflbench.measures.measure import Measure
from fflbench.privacy.attack import CuriousServer
from fflbench.privacy.observation import Observation, linear_layers
from fflbench.records.record import Record
from fflbench.records.validation import Content, Text
from fflbench.registry import LETTERS, Kind
from fflbench.tasks import Task


class ObservedFacts(Content):
    """Facts about the attacked observation."""

    adaptive: bool | None
    observation: Text
    knows: list[Text]
    caution: Text = ""


@dataclass(frozen=True, kw_only=True)
class ObservedMeasure(Measure):
    """Run a privacy attack on an observation that a coalition of parties makes of a round."""

    attacked = Kind.PRIVACY_ATTACK
    section = "Privacy"
    observed = "observation"
    facts: ClassVar[type[Content]] = ObservedFacts

    observation: Annotated[
        str, MaxLen(LETTERS), "how a coalition turns what it sees into updates to attack (fflbench list observations)"
    ] = "submission"

    def __post_init__(self) -> None:
        registry.get(Kind.OBSERVATION, self.observation)

    @property
    def observing(self) -> Observation:
        """The observation, created."""
        made: Observation = registry.get(Kind.OBSERVATION, self.observation).create()
        return made

    def applies(self, defense: Chain) -> bool:
        return self.observing.applies(defense.transport)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        if self.observing.needs_linear_layer and not linear_layers(task.model_without_weights()):
            raise ParameterError(f"observation = {self.observation} needs a model with a linear layer")

    def observation_facts(self, defense: Chain, attack: CuriousServer) -> dict[str, Any]:
        """Return facts about the observation: the knowledge it needs, and whether it is adaptive to mixed rows."""
        observing = self.observing
        mixed = defense.transport.rows == "mixture"
        return {
            "adaptive": (observing.adaptive or attack.rehearses) if mixed else None,
            "observation": registry.get(Kind.OBSERVATION, self.observation).summary,
            "knows": list(dict.fromkeys([*observing.knows, *attack.knows])),
            "caution": observing.caution,
        }

    @classmethod
    def row_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return a warning where no attack took into account that the transport mixes updates."""
        adaptive = [record.facts["adaptive"] for record in records if record.status == "done"]
        mixed = any(each is not None for each in adaptive)
        return ("no adaptive attack has been run against its transport",) if mixed and not any(adaptive) else ()


def training_seconds(task: Task, examples: float) -> float:
    """Return the approximate seconds of local training on so many examples, measured on one core with small models."""
    return 1e-8 * examples * task.local_epochs * task.columns().count
