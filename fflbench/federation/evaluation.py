"""Evaluation of global models on the test set."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fflbench.data import Examples
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.losses import losses
from fflbench.federation.attack import Goal
from fflbench.tasks import Task
from fflbench.types import Vector

BATCH = 1000
NO_CLASS = -1


class Evaluation:
    """Evaluates models on the same examples, and on the inputs that attacks aim at, in batches that fit the cache."""

    def __init__(self, task: Task, model: FlatModel, test: Examples, goals: Sequence[Goal | None] = ()) -> None:
        self.task, self.model = task, model
        self.x, self.y = self._tensor(test.x), self._tensor(test.y)
        self.goals = [
            goal and (self._tensor(goal.examples.x), self._tensor(goal.examples.y), self._tensor(goal.labels))
            for goal in goals
        ]

    @torch.inference_mode()
    def __call__(self, weights: Vector) -> dict[str, Any]:
        """Return the metrics of a model; `diverged` means that its loss is not finite and therefore left out.

        Accuracy on a goal's inputs and the attack's success are those of the first goal, and lists of all goals; an
        attack without a goal on this task has None there.
        """
        self.model.load(weights)
        total = 0.0
        predicted = []
        for outputs, y in zip(_outputs(self.model, self.x), torch.split(self.y, BATCH), strict=True):
            total += losses(self.task, outputs, y).sum(dtype=torch.float64).item()
            predicted.append(self._predict(outputs))
        decisions = torch.cat(predicted)
        on_goals = [self._score(goal) if goal else (None, None) for goal in self.goals]
        loss = total / len(self.y)
        return {
            "test_loss": loss if math.isfinite(loss) else None,
            "accuracy": _hit_rate(decisions == self.y),
            "source_accuracy": on_goals[0][0] if on_goals else None,
            "attack_success_rate": on_goals[0][1] if on_goals else None,
            "goal_source_accuracy": [accuracy for accuracy, _ in on_goals],
            "goal_attack_success_rate": [success for _, success in on_goals],
            "class_accuracy": [_hit_rate(decisions[self.y == each] == each) for each in range(len(self.task.classes))],
            "diverged": not math.isfinite(loss),
        }

    def _score(self, goal: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> tuple[float | None, float | None]:
        """Return the accuracy on a goal's inputs, and the share of them that get the label which the attack wants."""
        x, true, wanted = goal
        decided = torch.cat([self._predict(outputs) for outputs in _outputs(self.model, x)])
        return _hit_rate(decided == true), _hit_rate(decided == wanted)

    def _tensor(self, values: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.model.flat.device)

    def _predict(self, outputs: torch.Tensor) -> torch.Tensor:
        if self.task.loss == "binary-cross-entropy":
            outputs = outputs.squeeze(-1)
            decisions = (outputs.sigmoid() >= self.task.decision_threshold).long()
            return decisions.masked_fill(~outputs.isfinite(), NO_CLASS)
        return outputs.argmax(1).masked_fill(~outputs.isfinite().all(1), NO_CLASS)


def _hit_rate(hits: torch.Tensor) -> float | None:
    return hits.double().mean().item() if len(hits) else None


@torch.inference_mode()
def mean_loss(task: Task, model: FlatModel, weights: Vector, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the mean loss of a model with these weights on some examples."""
    vector = np.array(weights, np.float32)
    model.columns.clamp_variances(vector)
    model.load(vector)
    batches = zip(_outputs(model, x), torch.split(y, BATCH), strict=True)
    total = sum(losses(task, outputs, labels).sum(dtype=torch.float64).item() for outputs, labels in batches)
    return total / max(len(y), 1)


def _outputs(model: FlatModel, inputs: torch.Tensor) -> Iterator[torch.Tensor]:
    for x in torch.split(inputs, BATCH):
        yield model.forward(x)
