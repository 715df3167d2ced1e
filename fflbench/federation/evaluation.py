"""Evaluation of global models on the test set."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

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

    def __init__(self, task: Task, model: FlatModel, test: Examples, goals: Sequence[Goal] = ()) -> None:
        self.task, self.model = task, model
        self.x, self.y = self._tensor(test.x), self._tensor(test.y)
        self.goals = [(self._tensor(g.examples.x), self._tensor(g.examples.y), self._tensor(g.labels)) for g in goals]

    @torch.inference_mode()
    def __call__(self, weights: Vector) -> dict[str, Any]:
        """Return the metrics of a model; `diverged` means that its loss is not finite and therefore left out.

        Accuracy on a goal's inputs and the attack's success are those of the first goal, and lists of all goals.
        """
        self.model.load(weights)
        self.model.model.eval()
        total = 0.0
        predicted = []
        for outputs, y in zip(self._outputs(self.x), torch.split(self.y, BATCH), strict=True):
            total += losses(self.task, outputs, y).sum(dtype=torch.float64).item()
            predicted.append(self._decide(outputs))
        decisions = torch.cat(predicted)
        on_goals = [
            (_share(decided == true), _share(decided == wanted))
            for x, true, wanted in self.goals
            for decided in [torch.cat([self._decide(outputs) for outputs in self._outputs(x)])]
        ]
        loss = total / len(self.y)
        return {
            "test_loss": loss if math.isfinite(loss) else None,
            "accuracy": _share(decisions == self.y),
            "source_accuracy": on_goals[0][0] if on_goals else None,
            "attack_success_rate": on_goals[0][1] if on_goals else None,
            "goal_source_accuracy": [accuracy for accuracy, _ in on_goals],
            "goal_attack_success_rate": [success for _, success in on_goals],
            "class_accuracy": [_share(decisions[self.y == each] == each) for each in range(len(self.task.classes))],
            "diverged": not math.isfinite(loss),
        }

    def _tensor(self, values: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.model.flat.device)

    def _outputs(self, inputs: torch.Tensor) -> Iterator[torch.Tensor]:
        for x in torch.split(inputs, BATCH):
            # A copy, since a model may modify its input in place.
            yield self.model.model(x.to(memory_format=torch.channels_last, copy=True) if x.ndim == 4 else x.clone())

    def _decide(self, outputs: torch.Tensor) -> torch.Tensor:
        if self.task.loss == "binary-cross-entropy":
            outputs = outputs.squeeze(-1)
            decisions = (outputs.sigmoid() >= self.task.decision_threshold).long()
            return decisions.masked_fill(~outputs.isfinite(), NO_CLASS)
        return outputs.argmax(1).masked_fill(~outputs.isfinite().all(1), NO_CLASS)


def _share(hits: torch.Tensor) -> float | None:
    return hits.double().mean().item() if len(hits) else None
