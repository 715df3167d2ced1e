"""Base class of privacy measures, which run an attack on an observation of a round."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MaxLen

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation.chain import Chain
from fflbench.measures.measure import Measure
from fflbench.privacy.observation import Observation, linear_weight_names
from fflbench.privacy.reconstruction_attack import CuriousServer
from fflbench.records.record import Record
from fflbench.records.validation import RecordFields, Text
from fflbench.registry import LETTERS, Kind
from fflbench.tasks import Task


class PrivacyFacts(RecordFields):
    """Facts about the attacked observation."""

    adaptive: bool | None
    observation: Text
    knows: list[Text]
    caution: Text = ""


@dataclass(frozen=True, kw_only=True)
class PrivacyMeasure(Measure):
    """Run a privacy attack on an observation that a coalition of parties makes of a round."""

    attacked = Kind.PRIVACY_ATTACK
    section = "Privacy"
    observed = "observation"
    facts: ClassVar[type[RecordFields]] = PrivacyFacts

    observation: Annotated[
        str, MaxLen(LETTERS), "how a coalition turns what it sees into updates to attack (fflbench list observations)"
    ] = "submission"

    def __post_init__(self) -> None:
        registry.get(Kind.OBSERVATION, self.observation)

    def create_observation(self) -> Observation:
        """Return the observation that the measure's parameter names."""
        created: Observation = registry.get(Kind.OBSERVATION, self.observation).create()
        return created

    def applies_to(self, defense: Chain) -> bool:
        return self.create_observation().applies_to(defense.transport)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        if self.create_observation().needs_linear_layer and not linear_weight_names(task.model_without_weights()):
            raise ParameterError(f"observation = {self.observation} needs a model with a linear layer")

    def observation_facts(self, defense: Chain, attack: CuriousServer) -> dict[str, Any]:
        """Return facts about the observation: the knowledge it needs, and whether it is adaptive to mixed rows."""
        observation = self.create_observation()
        mixed = defense.transport.rows == "mixture"
        return {
            "adaptive": (observation.adaptive or attack.simulates_rounds) if mixed else None,
            "observation": registry.get(Kind.OBSERVATION, self.observation).summary,
            "knows": list(dict.fromkeys([*observation.knows, *attack.knows])),
            "caution": observation.caution,
        }

    @classmethod
    def row_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return a warning where no attack took into account that the transport mixes updates."""
        adaptive = [record.facts["adaptive"] for record in records if record.status == "done"]
        mixed = any(each is not None for each in adaptive)
        return ("no adaptive attack has been run against its transport",) if mixed and not any(adaptive) else ()


def examples_trained_per_round(task: Task, held: float) -> float:
    """Return the number of examples that a participant trains on in a round, repetitions included."""
    return task.local_steps * min(task.batch_size, held) if task.local_steps else task.local_epochs * held


def estimate_training_seconds(task: Task, examples: float) -> float:
    """Return the approximate seconds of training on so many examples, measured on one core with small models."""
    return 1e-8 * examples * task.columns().count
