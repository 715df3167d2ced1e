"""Adult (Kohavi, Scaling up the accuracy of naive-Bayes classifiers, KDD 1996) with a multi-layer perceptron.

As in the FFL paper, section "Data sets and models".
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from fflbench.plugin import ADULT, Examples, Task, task

if TYPE_CHECKING:
    from torch import nn


@task("adult-mlp", title="Adult, MLP")
class AdultMLP(Task):
    """Whether a person earns more than 50K."""

    data_set = ADULT
    classes = ADULT.classes
    attack_defaults: ClassVar = {"label-flipping": {"source": 1, "target": 0}}
    gpus = 0.1

    rounds = 100
    batch_size = 64
    optimizer = "adam"
    learning_rate = 0.001
    loss = "binary-cross-entropy"
    engine = "stacked"

    def trait(self, examples: Examples) -> npt.NDArray[np.bool_]:
        # "Female" comes first in the alphabet, so it is the smaller of two values.
        women: npt.NDArray[np.bool_] = examples.x[:, ADULT.features.index("sex")] < 0
        return women

    def model(self) -> "nn.Module":
        from torch import nn

        return nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
