"""A backdoor with a trigger. Gu et al., BadNets: evaluating backdooring attacks on deep neural networks, 2019."""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from fflbench.plugin import Attack, Examples, Goal, ParameterError, Task, attack


@attack("badnets", title="BadNets", knows=["own data"])
class BadNets(Attack):
    """Stamp a bright square on a share of the attackers' images and label these as the target class."""

    target: Annotated[int, Ge(0), "label of stamped images"] = 0
    size: Annotated[int, Ge(1), "pixels on a side of the square, in the lower right corner"] = 2
    value: Annotated[float, "brightness of the square"] = 1.0
    stamped: Annotated[float, Gt(0), Le(1), "share of an attacker's images that are stamped in a round"] = 0.5

    def validate(self, task: Task) -> None:
        if self.target >= len(task.classes):
            raise ParameterError(f"target = {self.target} must be one of {len(task.classes)} classes, from 0")

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        chosen = rng.random(len(examples)) < self.stamped
        x = examples.x.copy()
        x[chosen] = self.stamp(x[chosen])
        return Examples(x, np.where(chosen, self.target, examples.y))

    def goal(self, test: Examples, task: Task) -> Goal:
        others = test.y != self.target
        stamped = Examples(self.stamp(test.x[others]), test.y[others])
        return Goal(stamped, np.full(len(stamped), self.target))

    def stamp(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the images with the trigger."""
        stamped = images.copy()
        stamped[..., -self.size :, -self.size :] = self.value
        return stamped
