"""MNIST (LeCun et al., Gradient-based learning applied to document recognition, 1998) with a convolutional network.

As in the FFL paper, section "Data sets and models".
"""

from typing import TYPE_CHECKING, ClassVar

from fflbench.plugin import MNIST, Task, task

if TYPE_CHECKING:
    from torch import nn


@task("mnist-cnn", title="MNIST, CNN")
class MnistCNN(Task):
    """Ten digits from 28 x 28 pixels."""

    data_set = MNIST
    classes = MNIST.classes
    attack_defaults: ClassVar = {"label-flipping": {"source": 7, "target": 1}}
    trait_class = 7
    gpus = 0.25

    participants = 100
    per_round = 50
    rounds = 200
    local_epochs = 3
    batch_size = 64
    learning_rate = 0.001

    def model(self) -> "nn.Module":
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, 20, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(320, 50),
            nn.ReLU(),
            nn.Linear(50, 10),
        )
