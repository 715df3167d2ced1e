"""Property inference: whether a participant's data has a property, as a curious server judges."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from fflbench.data import Examples
from fflbench.errors import ParameterError
from fflbench.federation.chain import Chain
from fflbench.federation.timing import Timing
from fflbench.measures.measure import PROCESS_BYTES, Context, Outcome
from fflbench.measures.one_round import require_multiple
from fflbench.privacy.observation import NOTHING
from fflbench.privacy.observed_measure import ObservedMeasure, training_seconds
from fflbench.privacy.properties import Having, Informed, Make, PropertyAttack, coins
from fflbench.privacy.roc import AREA, CURVE, InferenceFacts, Point, points, rates
from fflbench.randomness import stream
from fflbench.registration import measure
from fflbench.tasks import Task
from fflbench.types import Indices

if TYPE_CHECKING:
    from fflbench.engines.flat_model import FlatModel
    from fflbench.privacy.shadow_rounds import ShadowObservation


@measure("property", title="Property")
class Property(ObservedMeasure):
    """Train participants with and without a property, and infer from the round's messages which of them have it.

    The property is the task's: that many examples have a trait, by default to be of one class. The training set is
    split in three: for the global model, the victims, and the server. Where an update is of several people, each of
    them is judged by it.
    """

    depends_on = ("transport",)
    facts = InferenceFacts
    item = Point
    curves = (CURVE,)
    metrics = AREA

    groups: Annotated[int, Ge(1), "rounds, each with its own participants"] = 20
    people: Annotated[int, Ge(2), "participants per round"] = 10
    examples: Annotated[int, Ge(1), "examples per participant"] = 70
    share_with: Annotated[float, Ge(0), Le(1), "share of examples with the trait, with the property"] = 0.1
    share_without: Annotated[float, Ge(0), Le(1), "share of examples with the trait, without the property"] = 0.0
    model_epochs: Annotated[int, Ge(0), "epochs of the task's training behind the global model"] = 5

    def takes(self, attack: Any) -> bool:
        return isinstance(attack, PropertyAttack)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        super().check(task, defense, attack)
        defense.validate(self.people)
        require_multiple("people", self.people, defense.transport)
        if self._counts(True) == self._counts(False):
            shares = f"share_with = {self.share_with} and share_without = {self.share_without}"
            raise ParameterError(f"{shares} come to the same of {self.examples} examples")

    def steps(self, task: Task) -> int:
        return 2

    def memory(self, task: Task) -> int:
        return PROCESS_BYTES + 8 * (self.groups * self.people + 1000) * task.columns().count

    def estimate(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        made_up = getattr(attack, "shadows", 0)
        examples = (self.groups * self.people + made_up) * self.examples
        examples += self.model_epochs * len(task.data().train) // 3
        return 1.0 + training_seconds(task, examples) + 3e-6 * made_up * task.columns().count

    def run(self, context: Context) -> Outcome:
        import torch

        from fflbench.engines.flat_model import FlatModel
        from fflbench.federation.rounds import new_model, one_thread
        from fflbench.privacy.shadow_rounds import ShadowRounds

        task, defense, attack = context.task, context.defense, context.attack
        seed, device = context.seed, context.device
        with one_thread():
            data, rng = task.data().train, stream(seed, "property")
            ours, theirs, servers = np.array_split(rng.permutation(len(data)), 3)
            model = FlatModel(new_model(task, seed), torch.device(device))
            self._learn(task, model, ours, seed)
            x, y = (torch.from_numpy(part).to(device) for part in (data.x, data.y))
            weights = model.flat.cpu().numpy().copy()
            stage = ShadowRounds(task, model, weights, x, y, defense, self.observing, seed)
            having = coins(self.groups, self.people, rng)
            # At least one of each, since a ROC curve needs both.
            having[0][:2] = [True, False]
            make = self._maker(task, data, theirs)
            sights = list(stage.play([[make(has, rng) for has in group] for group in having], "victims"))
            if not sights:
                raise ParameterError(NOTHING)
            context.step(1)
            start = time.perf_counter()
            parameters = model.columns.parameters
            own_rng = stream(seed, "judge")
            attack.prepare(Informed(parameters, self.people, own_rng, stage, self._maker(task, data, servers)))
            scores, truth = _judged(attack, sights, having)
            seconds = time.perf_counter() - start
        context.step(2)
        return self._outcome(defense, attack, sights, scores, truth, seconds)

    def _learn(self, task: Task, model: "FlatModel", ours: Indices, seed: int) -> None:
        from fflbench.privacy.victims import prepare

        everybody = np.arange(len(task.data().train))
        prepare(task, model, [np.setdiff1d(everybody, ours)], self.model_epochs, seed)

    def _counts(self, has: bool) -> int:
        return round((self.share_with if has else self.share_without) * self.examples)

    def _maker(self, task: Task, data: Examples, pool: Indices) -> Make:
        """Return a function that draws a participant's examples from a pool, with or without the property."""
        trait = task.trait(Examples(data.x[pool], data.y[pool]))
        having, others = pool[trait], pool[~trait]

        def make(has: bool, rng: np.random.Generator) -> Indices:
            count = self._counts(has)
            chosen = [(having, count), (others, self.examples - count)]
            for part, wanted in chosen:
                if wanted > len(part):
                    raise ParameterError(f"examples = {self.examples} are more than a third of the training part has")
            return np.concatenate([rng.choice(part, wanted, replace=False) for part, wanted in chosen])

        return make

    def _outcome(
        self,
        defense: Chain,
        attack: PropertyAttack,
        sights: "Sequence[ShadowObservation]",
        scores: npt.NDArray[np.float64],
        truth: npt.NDArray[np.bool_],
        seconds: float,
    ) -> Outcome:
        values = rates(scores, truth, distinct=int((~truth).sum()))
        return Outcome(
            metrics={metric.name: values[metric.name] for metric in self.metrics},
            history=points(scores, truth),
            facts={
                "members": int(truth.sum()),
                "non_members": int((~truth).sum()),
                "updates": len(sights),
                **self.observation_facts(defense, attack),
            },
            seconds={"attack": seconds},
        )


def _judged(
    attack: PropertyAttack, sights: "Sequence[ShadowObservation]", having: Having
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return every participant's score and the truth; of several updates per observation, the mean score."""
    several = len(sights[0].observed.updates)
    judged = attack.judge(np.stack([update for sight in sights for update in sight.observed.updates]))
    each = np.asarray(judged, np.float64).reshape(len(sights), several).mean(1)
    scores = np.repeat(each, [len(sight.observed.people) for sight in sights])
    return scores, np.array([having[sight.group][who] for sight in sights for who in sight.observed.people])
