"""Label flipping. Biggio et al., Poisoning attacks against support vector machines, ICML 2012; as in the FFL paper."""

import numpy as np

from fflbench.data import Examples
from fflbench.federation import Attack
from fflbench.registry import attack
from fflbench.tasks import Task


@attack("label-flipping", title="Label flipping", knows=["own data"])
class LabelFlipping(Attack):
    """Train on data in which every example of the task's source class is labelled as its target class."""

    targeted = True

    def poison_data(self, examples: Examples, task: Task, rng: np.random.Generator) -> Examples:
        return Examples(examples.x, np.where(examples.y == task.source, task.target, examples.y))
