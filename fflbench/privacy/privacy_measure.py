"""Base class of privacy measures, which run an attack on an observation of a round."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import MaxLen

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation.chain import Chain
from fflbench.federation.time_estimates import Timing, seconds_of
from fflbench.measures.measure import Measure
from fflbench.privacy.observation import Observation, linear_weight_names
from fflbench.privacy.reconstruction_attack import CuriousServer, ObservedGradients
from fflbench.records.record import Record
from fflbench.records.validation import RecordFields, Text
from fflbench.registry import LETTERS, Kind
from fflbench.tasks import Task

TIMED_GRADIENTS = 64
"""Examples whose gradients are timed together."""
TIMED_VALUES = 2**23
"""Number of gradient values beyond which gradient inversion is timed for fewer victims."""


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
    several_rounds: ClassVar[bool] = False
    """Whether it runs as many rounds as its observation combines."""

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
        if self.create_observation().rounds > 1 and not self.several_rounds:
            raise ParameterError(f"observation = {self.observation} combines rounds, and this measure observes one")
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


def training_seconds_per_example(task: Task, timing: Timing) -> float:
    """Return the seconds of local training on one example, from those of a round."""
    held = task.examples or len(task.data().train) / task.participants
    return timing.training(task) / (task.per_round * examples_trained_per_round(task, held))


def gradient_seconds(task: Task, timing: Timing) -> float:
    """Return the seconds that the gradient of a single example takes, as part of many at once."""
    return timing.once(lambda: _measure_gradients(task, timing.device), "gradients", task)


def inversion_step_seconds(task: Task, victims: int, batch: int, timing: Timing) -> float:
    """Return the seconds of one step of gradient inversion for so many victims, with a batch of examples each."""
    timed = max(1, min(victims, TIMED_VALUES // (batch * task.columns().count)))
    things = "inversion", task, timed, batch
    return timing.once(lambda: _measure_inversion_step(task, timed, batch, timing.device), *things) * victims / timed


def _measure_gradients(task: Task, device: str) -> float:
    import torch

    from fflbench.arrays.threads import one_thread
    from fflbench.engines.flat_model import FlatModel
    from fflbench.federation.rounds import new_model
    from fflbench.privacy.per_example_signals import PerExampleSignals

    train, indices = task.data().train, np.arange(min(TIMED_GRADIENTS, len(task.data().train)))
    with one_thread():
        model = FlatModel(new_model(task, 0), torch.device(device))
        x, y = (torch.from_numpy(part[: len(indices)]).to(device) for part in (train.x, train.y))
        signals, weights = PerExampleSignals(task, model, x, y), model.flat.cpu().numpy().copy()
        return _seconds_of_second_call(lambda: signals.gradient_rms_by_coordinate(weights, indices)) / len(indices)


def _measure_inversion_step(task: Task, victims: int, batch: int, device: str) -> float:
    import torch

    from fflbench.arrays.threads import one_thread
    from fflbench.federation.rounds import new_model
    from fflbench.privacy.gradient_inversion import gradient_matching_objective, relative_squared_distance

    with one_thread():
        model, generator = new_model(task, 0).to(device).eval(), torch.Generator().manual_seed(0)
        shape, classes = task.data().train.x.shape[1:], len(task.classes)
        gradients = tuple(each.detach().expand(victims, *each.shape).contiguous() for each in model.parameters())
        bounds = torch.zeros(1, device=device), torch.ones(1, device=device)
        observed = ObservedGradients(model, gradients, batch, shape, classes, task.loss, *bounds, generator)
        objective = gradient_matching_objective(observed, relative_squared_distance)
        x, logits = observed.random_start(batch, *shape), observed.random_start(batch, classes)
        return _seconds_of_second_call(lambda: objective(x, logits))


def _seconds_of_second_call(work: Callable[[], object]) -> float:
    work()
    return seconds_of(work)
