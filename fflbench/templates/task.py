"""Points of two clouds, as far apart as they are wide. An example."""

from typing import TYPE_CHECKING

import numpy as np

from fflbench.plugin import Data, Task, task

if TYPE_CHECKING:
    from torch import nn


@task("two-clouds", title="Two clouds")
class TwoClouds(Task):
    """Which of two clouds a point belongs to."""

    classes = ("left", "right")
    attack_defaults = {"label-flipping": {"source": 1, "target": 0}, "gaussian-noise": {"sigma": 0.2}}
    trait_class = 1

    # Fields whose defaults do not fit; their types and meanings are those of Task.
    rounds = 10
    learning_rate = 0.1

    def data(self) -> Data:
        rng = np.random.default_rng(0)
        y = rng.integers(2, size=1000)
        x = rng.normal(size=(1000, 5)) + y[:, None]
        return Data.from_arrays(x[:800], y[:800], x[800:], y[800:])

    def model(self) -> "nn.Module":
        from torch import nn

        return nn.Linear(5, 2)
