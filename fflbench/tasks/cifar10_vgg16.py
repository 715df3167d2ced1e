"""CIFAR-10 (Krizhevsky, Learning multiple layers of features from tiny images, 2009) with VGG16, as in the FFL paper.

VGG16 is by Simonyan and Zisserman (Very deep convolutional networks for large-scale image recognition, ICLR 2015); here
with batch normalisation, and one fully connected layer instead of three, since five poolings leave a single position
of a 32 x 32 image.
"""

from typing import TYPE_CHECKING, ClassVar

from fflbench.data.cifar10 import CIFAR10, CLASSES
from fflbench.registration import task
from fflbench.tasks import Task

if TYPE_CHECKING:
    from torch import nn

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of VGG16's convolutions (configuration D); a pooling ends each block."""


@task("cifar10-vgg16", title="CIFAR-10, VGG16")
class Cifar10VGG16(Task):
    """Ten kinds of objects in photographs of 32 x 32 pixels."""

    data_set = CIFAR10
    classes = CLASSES
    attack_defaults: ClassVar = {
        "gaussian-noise": {"sigma": 0.2},
        "label-flipping": {"source": CLASSES.index("cat"), "target": CLASSES.index("dog")},
    }
    trait_class = CLASSES.index("cat")

    rounds = 100
    local_epochs = 3

    def model(self) -> "nn.Module":
        from torch import nn

        layers: list[nn.Module] = []
        channels = 3
        for block in BLOCKS:
            for width in block:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, 10))
