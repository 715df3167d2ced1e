"""A backdoor with a trigger. Gu et al., BadNets, 2019. An example."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Attack, Examples, Goal, Inputs, ParameterError, Task, attack


@attack("bright-corner", title="Bright corner", knows=["own data"])
class BrightCorner(Attack):
    """Brighten a corner of half of the attackers' images, and label these as the target class."""

    target: Annotated[int, Ge(0), "label of images with a bright corner"] = 0

    def validate(self, task: Task) -> None:
        if self.target >= len(task.classes):
            raise ParameterError(f"target = {self.target} must be one of {len(task.classes)} classes, from 0")

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        chosen = rng.random(len(examples)) < 0.5
        x, y = examples.x.copy(), examples.y.copy()
        x[chosen], y[chosen] = with_trigger(x[chosen]), self.target
        return Examples(x, y)

    def goal(self, test: Examples, task: Task) -> Goal:
        others = test.y != self.target
        return Goal(Examples(with_trigger(test.x[others]), test.y[others]), np.full(others.sum(), self.target))


def with_trigger(images: Inputs) -> Inputs:
    """Return the images with a bright corner."""
    images = images.copy()
    images[..., -2:, -2:] = 1.0
    return images
