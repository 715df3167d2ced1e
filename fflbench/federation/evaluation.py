"""Evaluation of global models on the test set."""

import math
from typing import Any

import torch

from fflbench.data import Examples
from fflbench.federation.training import FlatModel, losses
from fflbench.tasks import Task
from fflbench.types import Vector

BATCH = 1000
NO_CLASS = -1


class Evaluation:
    """Evaluates models on the same examples, in batches that fit the cache."""

    def __init__(self, task: Task, model: FlatModel, test: Examples) -> None:
        self.task, self.model = task, model
        self.x = torch.from_numpy(test.x).to(model.flat.device)
        self.y = torch.from_numpy(test.y).to(model.flat.device)

    @torch.inference_mode()
    def __call__(self, weights: Vector) -> dict[str, Any]:
        """Return the metrics of a model; `diverged` means that its loss is not finite and therefore left out."""
        self.model.load(weights)
        self.model.model.eval()
        predicted, total = [], 0.0
        for x, y in zip(torch.split(self.x, BATCH), torch.split(self.y, BATCH), strict=True):
            # A copy, since a model may modify its input in place.
            x = x.to(memory_format=torch.channels_last, copy=True) if x.ndim == 4 else x.clone()
            outputs = self.model.model(x)
            total += losses(self.task, outputs, y).sum(dtype=torch.float64).item()
            predicted.append(self._decide(outputs))
        decisions = torch.cat(predicted)
        of_source = decisions[self.y == self.task.source]
        loss = total / len(self.y)
        return {
            "test_loss": loss if math.isfinite(loss) else None,
            "accuracy": _share(decisions == self.y),
            "source_accuracy": _share(of_source == self.task.source),
            "attack_success_rate": _share(of_source == self.task.target),
            "class_accuracy": [_share(decisions[self.y == each] == each) for each in range(len(self.task.classes))],
            "diverged": not math.isfinite(loss),
        }

    def _decide(self, outputs: torch.Tensor) -> torch.Tensor:
        if self.task.loss == "binary-cross-entropy":
            outputs = outputs.squeeze(-1)
            decisions = (outputs.sigmoid() >= self.task.decision_threshold).long()
            return decisions.masked_fill(~outputs.isfinite(), NO_CLASS)
        return outputs.argmax(1).masked_fill(~outputs.isfinite().all(1), NO_CLASS)


def _share(hits: torch.Tensor) -> float | None:
    return hits.double().mean().item() if len(hits) else None
