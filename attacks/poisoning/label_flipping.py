"""Label flipping. Biggio et al., Poisoning attacks against support vector machines, ICML 2012; as in the FFL paper."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Attack, Examples, Goal, ParameterError, Task, attack


@attack("label-flipping", title="Label flipping", knows=["own data"])
class LabelFlipping(Attack):
    """Train on data in which every example of a source class is labelled as a target class."""

    source: Annotated[int, Ge(0), "class whose examples are labelled as another"] = 0
    target: Annotated[int, Ge(0), "label that they get"] = 1

    def validate(self, task: Task) -> None:
        count = len(task.classes)
        if self.source == self.target or max(self.source, self.target) >= count:
            raise ParameterError(
                f"source = {self.source} and target = {self.target} must be two of {count} classes, from 0"
            )

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        return Examples(examples.x, np.where(examples.y == self.source, self.target, examples.y))

    def goal(self, test: Examples, task: Task) -> Goal:
        aimed = test.y == self.source
        return Goal(Examples(test.x[aimed], test.y[aimed]), np.full(aimed.sum(), self.target))
