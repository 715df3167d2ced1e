"""CIFAR-10 (Krizhevsky, Learning multiple layers of features from tiny images, 2009) with a convolutional network.

Geiping et al. attack this network (How easy is it to break privacy in federated learning?, NeurIPS 2020), and so do the
figures of the FFL paper.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from fflbench.plugin import CIFAR10, Data, Task, task

if TYPE_CHECKING:
    from torch import nn

WIDTHS = ((1, 2, 2, 4, 4, 4), (4, 4))
"""Channels of the convolutions, as multiples of the width; a pooling of three by three ends each block."""
LEFT = 3 * 3
"""Positions of an image after the poolings."""


@task("cifar10-convnet", title="CIFAR-10, ConvNet")
class Cifar10ConvNet(Task):
    """Ten kinds of objects in photographs of 32 x 32 pixels, by a network that papers on inversion attack."""

    data_set = CIFAR10
    classes = CIFAR10.classes
    attack_defaults: ClassVar = {
        "gaussian-noise": {"sigma": 0.2},
        "label-flipping": {"source": CIFAR10.classes.index("cat"), "target": CIFAR10.classes.index("dog")},
    }
    trait_class = CIFAR10.classes.index("cat")

    rounds = 100
    local_epochs = 3
    width: Annotated[int, Ge(1), "channels of the first convolution; the papers have 64"] = 64
    participants_hold: Annotated[
        Literal["train", "test"], "part of the data set that is divided among participants; the other is the test set"
    ] = "train"

    def data(self) -> Data:
        data = super().data()
        return data if self.participants_hold == "train" else Data(data.test, data.train, data.facts)

    def model(self) -> "nn.Module":
        from torch import nn

        layers: list[nn.Module] = []
        channels = 3
        for block in WIDTHS:
            for times in block:
                wide = times * self.width
                layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU()]
                channels = wide
            layers.append(nn.MaxPool2d(3))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(LEFT * channels, 10))
