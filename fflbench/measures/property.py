"""Property inference by a curious server: whether a participant's data has a property."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from fflbench.plugin import (
    NO_OBSERVATION,
    PROCESS_BYTES,
    Chain,
    Context,
    Examples,
    Indices,
    Outcome,
    ParameterError,
    PrivacyMeasure,
    PropertyAttack,
    PropertyObserver,
    Task,
    Timing,
    examples_trained_per_round,
    measure,
    one_round,
    property_attack,
    roc,
    stream,
    training_seconds_per_example,
)

if TYPE_CHECKING:
    from fflbench.plugin import FlatModel, ShadowObservation

FITTING = 1e-6
"""Seconds per shadow participant and value of its update that a classifier takes to learn from them, about."""


@measure("property", title="Property")
class Property(PrivacyMeasure):
    """Train participants with and without a property, and infer from the round's messages which of them have it.

    The property is the task's: that many examples have a trait, by default to be of one class. The training set is
    split in three: for the global model, the victims, and the server. Where an update comes from several
    participants, each of them gets its score.
    """

    depends_on = ("transport",)
    facts = roc.InferenceFacts
    item = roc.RocPoint
    curves = (roc.ROC_CURVE,)
    metrics = roc.AUC_METRICS

    groups: Annotated[int, Ge(1), "rounds, each with its own participants"] = 20
    people: Annotated[int, Ge(2), "participants per round"] = 10
    examples: Annotated[int, Ge(1), "examples per participant"] = 70
    share_with: Annotated[float, Ge(0), Le(1), "share of examples with the trait, with the property"] = 0.1
    share_without: Annotated[float, Ge(0), Le(1), "share of examples with the trait, without the property"] = 0.0
    model_epochs: Annotated[int, Ge(0), "epochs of the task's training behind the global model"] = 5

    def accepts_attack(self, attack: Any) -> bool:
        return isinstance(attack, PropertyAttack)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        super().check(task, defense, attack)
        defense.validate(self.people)
        one_round.require_groupable_count("people", self.people, defense.transport)
        if self._trait_count(True) == self._trait_count(False):
            shares = f"share_with = {self.share_with} and share_without = {self.share_without}"
            raise ParameterError(f"{shares} come to the same of {self.examples} examples")

    def step_count(self, task: Task) -> int:
        return 2

    def memory_bytes(self, task: Task) -> int:
        return PROCESS_BYTES + 8 * (self.groups * self.people + 1000) * task.columns().count

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        shadows = getattr(attack, "shadows", 0)
        examples = (self.groups * self.people + shadows) * examples_trained_per_round(task, self.examples)
        examples += self.model_epochs * len(task.data().train) / 3
        return examples * training_seconds_per_example(task, timing) + FITTING * shadows * task.columns().count

    def run(self, context: Context) -> Outcome:
        import torch

        from fflbench.plugin import FlatModel, ShadowRounds, new_model, one_thread

        task, defense, attack = context.task, context.defense, context.attack
        seed, device = context.seed, context.device
        with one_thread():
            data, rng = task.data().train, stream(seed, "property")
            for_model, for_victims, for_server = np.array_split(rng.permutation(len(data)), 3)
            model = FlatModel(new_model(task, seed), torch.device(device))
            self._pretrain(task, model, for_model, seed)
            x, y = (torch.from_numpy(part).to(device) for part in (data.x, data.y))
            weights = model.flat.cpu().numpy().copy()
            shadow_rounds = ShadowRounds(task, model, weights, x, y, defense, self.create_observation(), seed)
            labels = property_attack.random_property_labels(self.groups, self.people, rng)
            # At least one of each, since a ROC curve needs both.
            labels[0][:2] = [True, False]
            draw_examples = self._example_drawing_function(task, data, for_victims)
            examples = [[draw_examples(has, rng) for has in of_round] for of_round in labels]
            observations = list(shadow_rounds.run(examples, "victims"))
            if not observations:
                raise ParameterError(NO_OBSERVATION)
            context.report_step(1)
            start = time.perf_counter()
            parameters = model.columns.parameters
            own_rng, own_draw = stream(seed, "judge"), self._example_drawing_function(task, data, for_server)
            attack.prepare(PropertyObserver(parameters, self.people, own_rng, shadow_rounds, own_draw))
            scores, truth = _score_participants(attack, observations, labels)
            seconds = time.perf_counter() - start
        context.report_step(2)
        return self._create_outcome(defense, attack, observations, scores, truth, seconds)

    def _pretrain(self, task: Task, model: "FlatModel", used: Indices, seed: int) -> None:
        from fflbench.plugin import victim_updates

        all_examples = np.arange(len(task.data().train))
        victim_updates.pretrain_global_model(task, model, [np.setdiff1d(all_examples, used)], self.model_epochs, seed)

    def _trait_count(self, has: bool) -> int:
        return round((self.share_with if has else self.share_without) * self.examples)

    def _example_drawing_function(self, task: Task, data: Examples, pool: Indices) -> property_attack.DrawExamples:
        """Return a function that draws a participant's examples from a pool, with or without the property."""
        trait = task.trait(Examples(data.x[pool], data.y[pool]))
        with_trait, without = pool[trait], pool[~trait]

        def draw_examples(has: bool, rng: np.random.Generator) -> Indices:
            count = self._trait_count(has)
            chosen = [(with_trait, count), (without, self.examples - count)]
            for part, wanted in chosen:
                if wanted > len(part):
                    raise ParameterError(f"examples = {self.examples} are more than a third of the training set has")
            return np.concatenate([rng.choice(part, wanted, replace=False) for part, wanted in chosen])

        return draw_examples

    def _create_outcome(
        self,
        defense: Chain,
        attack: PropertyAttack,
        observations: "Sequence[ShadowObservation]",
        scores: npt.NDArray[np.float64],
        truth: npt.NDArray[np.bool_],
        seconds: float,
    ) -> Outcome:
        values = roc.roc_metrics(scores, truth, distinct_non_members=int((~truth).sum()))
        return Outcome(
            metrics={metric.name: values[metric.name] for metric in self.metrics},
            history=roc.roc_points(scores, truth),
            facts={
                "members": int(truth.sum()),
                "non_members": int((~truth).sum()),
                "updates": len(observations),
                **self.observation_facts(defense, attack),
            },
            seconds={"attack": seconds},
        )


def _score_participants(
    attack: PropertyAttack, observations: "Sequence[ShadowObservation]", labels: property_attack.PropertyLabels
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return every participant's score and the truth; of several updates per observation, the mean score."""
    several = len(observations[0].observed.updates)
    scored = attack.score(np.stack([update for shadow in observations for update in shadow.observed.updates]))
    each = np.asarray(scored, np.float64).reshape(len(observations), several).mean(1)
    scores = np.repeat(each, [len(shadow.observed.participants) for shadow in observations])
    return scores, np.array(
        [labels[shadow.round][who] for shadow in observations for who in shadow.observed.participants]
    )
